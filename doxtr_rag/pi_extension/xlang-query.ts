/** The whole TypeScript search as one function, for round trips that start in Python. */
import { Client } from "./client.js";
import { search, textOfAnswer } from "./search.js";
import type { Answer } from "./search.js";

export type XlangAnswer = Answer & { readonly markdown: string };

/** Ask the knowledge base of a folder, starting its server when it does not run. */
export async function xlangQuery(cwd: string, query: string, topK: number, documents = ""): Promise<XlangAnswer> {
  const answer = await search(
    new Client(process.env),
    cwd,
    { query, topK, documents },
    { mayLaunch: true, signal: undefined },
  );
  return { ...answer, markdown: textOfAnswer(answer) };
}
