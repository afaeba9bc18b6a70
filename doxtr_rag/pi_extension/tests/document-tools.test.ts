import { afterEach, beforeEach, expect, test } from "vitest";
import type { DrawnResult } from "../pi-types.js";
import { FakePi, plainTheme } from "./support/pi.js";
import { Project, wireChunk } from "./support/knowledge-base.js";

let project: Project;
let pi: FakePi;
beforeEach(async () => {
  project = new Project();
  project.served.stores = {
    shared: [wireChunk("p/guide#install", "Run pip install."), wireChunk("p/guide#use", "Open it.")],
    private: [],
  };
  await project.serve();
  pi = FakePi.load();
});
afterEach(() => project.close());

test("kb_doc lists the sections", async () => {
  const result = await pi.execute("kb_doc", { doc: "guide" }, project.root);
  expect(result.content[0]?.text).toContain("- install (section install, 16 characters)");
  expect(result.details).toEqual({ summary: "guide: 2 sections" });
});

test("kb_read reads a section", async () => {
  const result = await pi.execute("kb_read", { doc: "guide", section: "use" }, project.root);
  expect(result.content[0]?.text).toContain("### use");
  expect(result.content[0]?.text).toContain("#### Before it: install");
  expect(result.details).toEqual({ summary: "guide: use" });
});

test.each([
  ["kb_doc", {}, "doc must be text"],
  ["kb_doc", { doc: "" }, "doc is empty. Take a document's name from search_knowledge_base."],
  ["kb_doc", { doc: "x".repeat(2_000) }, "doc has more than 1000 characters"],
  ["kb_doc", { doc: "nope" }, 'No store holds the document "nope": did you mean guide?'],
  ["kb_read", { doc: "guide" }, "section must be text"],
  ["kb_read", { doc: "guide", section: "nope" }, 'guide has no section "nope"; it has install, use'],
])("%s(%j) is refused with a sentence", async (name, given, why) => {
  await expect(pi.execute(name, given, project.root)).rejects.toThrow(why);
});

test("titles, addresses and names are shown without secrets and control characters", async () => {
  const nasty = {
    breadcrumb: ["Guide", "api_key = abc123def456\u001b[31m\u0000"],
    url: "https://me:pw1secret@host/x\u0007",
  };
  project.served.stores["shared"] = [wireChunk("p/guide#use", "Open it.", nasty), wireChunk("p/guide#b", "B.", nasty)];
  for (const [name, given] of [
    ["kb_doc", { doc: "guide" }],
    ["kb_read", { doc: "guide", section: "use" }],
  ] as const) {
    const result = await pi.execute(name, given, project.root);
    const shown = JSON.stringify(result);
    expect(shown).toContain("[scrubbed:");
    for (const secret of ["abc123def456", "pw1secret", "\\u001b", "\\u0000", "\\u0007"])
      expect(shown).not.toContain(secret);
  }
});

test("calls and results are drawn", async () => {
  const tool = pi.tool("kb_read");
  expect(tool.renderCall({ doc: "guide", section: "use" }, plainTheme).render(80)).toEqual(["kb_read guide § use"]);
  expect(tool.renderCall({}, plainTheme).render(80)).toEqual(["kb_read "]);
  const result = (await pi.execute("kb_read", { doc: "guide", section: "use" }, project.root)) as DrawnResult<never>;
  expect(tool.renderResult(result, { expanded: false, isPartial: false }, plainTheme).render(80)).toEqual([
    "guide: use",
  ]);
  expect(tool.renderResult(result, { expanded: true, isPartial: false }, plainTheme).render(80)).toContain(
    "> Open it.",
  );
  expect(tool.renderResult({ content: [] }, { expanded: false, isPartial: true }, plainTheme).render(80)).toEqual([
    "reading…",
  ]);
  expect(
    tool
      .renderResult({ content: [{ type: "text", text: "no" }] }, { expanded: true, isPartial: false }, plainTheme)
      .render(80),
  ).toEqual(["no"]);
});
