/** The TypeScript half of the cross-language round trip; Python starts it with these variables. */
import { writeFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { xlangQuery } from "../xlang-query.js";
import { Project, wireChunk } from "./support/knowledge-base.js";

const {
  DOXTR_XLANG_CWD: cwd,
  DOXTR_XLANG_OUT: out,
  DOXTR_XLANG_QUERY: query,
  DOXTR_XLANG_TOP_K: topK,
  DOXTR_XLANG_DOCUMENTS: documents,
} = process.env;

test.runIf(cwd !== undefined && out !== undefined)(
  "asks the knowledge base that Python filled",
  async () => {
    const queries = parsedQueries(query ?? "");
    const answers = [];
    for (const each of queries) answers.push(await xlangQuery(cwd ?? "", each, Number(topK ?? 5), documents ?? ""));
    writeFileSync(out ?? "", JSON.stringify(answers));
  },
  60_000,
);

describe("xlangQuery", () => {
  const project = new Project();
  afterEach(() => project.close());

  test("returns hits and their Markdown", async () => {
    project.served.stores = { shared: [wireChunk("p/guide#install", "Run pip install.")], private: [] };
    await project.serve();
    const answer = await xlangQuery(project.root, "q", 5);
    expect(answer.hits).toHaveLength(1);
    expect(answer.markdown).toContain("> Run pip install.");
  });
});

/** One question, or a JSON list of them. */
function parsedQueries(text: string): string[] {
  return text.startsWith("[") ? (JSON.parse(text) as string[]) : [text];
}
