/** What the extension's kb_doc and kb_read say, for a comparison that starts in Python. */
import { writeFileSync } from "node:fs";

const { DOXTR_EXTENSION: extension, DOXTR_READ_CWD: cwd, DOXTR_READ: wanted, DOXTR_READ_OUT: out } = process.env;

test("reads what Python asks for", async () => {
  const { Client } = await import(/* @vite-ignore */ `${extension}/client.ts`);
  const { outlineTool, readingTool } = await import(/* @vite-ignore */ `${extension}/document-tools.ts`);
  const client = new Client(process.env);
  const said: string[] = [];
  for (const { doc, section } of JSON.parse(wanted ?? "[]") as { doc: string; section?: string }[]) {
    const tool = section === undefined ? outlineTool(client) : readingTool(client);
    const result = await tool.execute("", { doc, section }, undefined, undefined, { cwd });
    said.push(result.content[0].text);
  }
  writeFileSync(out ?? "", JSON.stringify(said));
}, 60_000);
