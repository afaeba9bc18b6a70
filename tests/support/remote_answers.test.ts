/** What the extension finds in a store that only speaks Chroma, for a comparison that starts in Python. */
import { readFileSync, writeFileSync } from "node:fs";

const { DOXTR_EXTENSION: extension, DOXTR_ASK: asked, DOXTR_ANSWERS: answers } = process.env;

test("asks what Python asks", async () => {
  const { askChroma, chromaDocument } = await import(/* @vite-ignore */ `${extension}/chroma.ts`);
  const { embedding, store, questions, documents } = JSON.parse(readFileSync(asked ?? "", "utf8"));
  const call = {
    base: { path: "", root: "", token: null, endpoints: { embedding } },
    settings: { sharedHeaders: new Map(), privateHeaders: new Map() },
    signal: undefined,
  };
  const said = { pools: [] as unknown[], documents: [] as unknown[] };
  for (const { vector, topK, documents: filter } of questions) {
    const question = { query: "", vector: Float32Array.from(vector), topK, documents: filter };
    const { rankings, chunks, degraded } = await askChroma(call, store, question);
    said.pools.push({ rankings, chunks: [...chunks.values()], degraded });
  }
  for (const name of documents) said.documents.push(await chromaDocument(call, store, name));
  writeFileSync(answers ?? "", JSON.stringify(said));
}, 60_000);
