import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../client.js";
import { answerMarkdown } from "../render.js";
import { search, textOfAnswer } from "../search.js";
import type { Answer, Phase } from "../search.js";
import { embedded, FINGERPRINT, Project, wireChunk } from "./support/knowledge-base.js";
import type { JsonServer } from "./support/json-server.js";

let project: Project;
beforeEach(() => {
  project = new Project();
  project.served.stores = {
    shared: [wireChunk("p/guide#install", "Run pip install."), wireChunk("p/guide#use", "Open it.")],
    private: [wireChunk("p/noter/plan#goals", "Ship in May.", { scope: "LOCAL_PRIVATE" })],
  };
});
afterEach(() => project.close());

function ask(
  query = "how do I install",
  options: {
    topK?: number;
    documents?: string;
    client?: Client;
    signal?: AbortSignal;
    onPhase?: (phase: Phase) => void;
  } = {},
): Promise<Answer> {
  const { topK = 5, documents = "", client = project.client(), signal, onPhase } = options;
  return search(
    client,
    project.root,
    { query, topK, documents },
    { mayLaunch: true, signal, ...(onPhase ? { onPhase } : {}) },
  );
}

const titles = ({ hits }: Answer): string[] => hits.map(({ text }) => text);

test("both stores are asked once each, after one embedding", async () => {
  const server = await project.serve();
  const answer = await ask();
  expect(titles(answer)).toEqual(["Run pip install.", "Ship in May.", "Open it."]);
  expect(answer).toMatchObject({ degraded: [], stores: 2, failedStores: 0 });
  expect(server.paths().slice(0, 2)).toEqual(["/identity", "/embed"]);
  // The second store is asked at the same time, over a second connection that proves itself.
  expect(server.paths().slice(2).sort()).toEqual(["/identity", "/search/private", "/search/shared"]);
  expect(server.connections).toBe(2);
});

test("a second search costs one request a store and one for the embedding, over the same connections", async () => {
  const server = await project.serve();
  const client = project.client();
  await ask("q", { client });
  const { length } = server.asked;
  for (let round = 0; round < 3; round += 1) await ask("q", { client });
  expect(server.paths().slice(length).sort()).toEqual(
    ["/embed", "/search/private", "/search/shared"].flatMap((path) => [path, path, path]),
  );
  expect(server.connections).toBe(2);
});

test.each(["", " \n\t", "\u0000\u0007", "\u001b[31m", "\u00a0\u2003"])(
  "a blank question %j asks nobody",
  async (query) => {
    const server = await project.serve();
    const answer = await ask(query);
    expect(answer).toMatchObject({ hits: [], degraded: [] });
    expect(textOfAnswer(answer)).toBe("Nothing to search for: the query is empty.");
    expect(server.asked).toEqual([]);
  },
);

test("a store gets the question, its vector, the fingerprint and the sizes", async () => {
  const server = await project.serve();
  await ask("q", { topK: 7, documents: "guide/*" });
  const { body } = server.asked.find(({ path }) => path === "/search/shared") ?? {};
  expect(body).toEqual({
    query: "q",
    vector: "AACAPwAAAAAAAAAA",
    fingerprint: FINGERPRINT,
    size: 56,
    best: 14,
    documents: "guide/*",
  });
  expect(server.asked.find(({ path }) => path === "/embed")?.body).toEqual({
    input: "q",
    input_type: "query",
    encoding_format: "base64",
  });
});

test("a hit names its place, its citation and its quote", async () => {
  project.served.stores["shared"] = [
    wireChunk("p/guide#install", "Intro.\nRun pip install.", { page: "file:///srv/kb/guide.html" }),
  ];
  await project.serve();
  const [hit] = (await ask()).hits;
  expect(hit).toMatchObject({
    title: "install",
    document: "guide",
    url: "file:///srv/kb/guide.html#install",
    citation: "[Guide §install]",
    quote: "Run pip install.",
    store: "shared",
    scope: "SHARED_ORG",
    score: 1,
  });
});

test("a page that is no file is not linked", async () => {
  project.served.stores["shared"] = [wireChunk("p/guide#install", "x", { page: "javascript:alert(1)" })];
  await project.serve();
  expect((await ask()).hits[0]?.url).toBe("guide.html#install");
});

test("a text that was not sent along is fetched by its id", async () => {
  project.served.withheld = ["p/guide#use"];
  const server = await project.serve();
  expect(titles(await ask())).toContain("Open it.");
  expect(server.asked.at(-1)).toMatchObject({ path: "/chunks/shared", body: { ids: ["p/guide#use"] } });
});

test("phases are reported as they happen", async () => {
  await project.serve();
  const phases: Phase[] = [];
  await ask("q", { onPhase: (phase) => phases.push(phase) });
  expect(phases).toEqual([
    { phase: "embedding" },
    { phase: "searching", answered: 0, stores: 2 },
    { phase: "searching", answered: 1, stores: 2 },
    { phase: "searching", answered: 2, stores: 2 },
  ]);
});

test("a mount is a third store", async () => {
  project.served.stores["handbook"] = [wireChunk("m/leave#days", "Thirty days.")];
  await project.serve();
  project.change({
    mounts: [
      { ...(project.endpoints["shared"] as object), name: "handbook", path: "/srv/handbook", scope: "SHARED_ORG" },
    ],
  });
  const answer = await ask("leave");
  expect(answer.stores).toBe(3);
  expect(answer.hits.map(({ store }) => store)).toContain("handbook");
});

test("32 searches at once lose none", async () => {
  const server = await project.serve();
  const client = project.client();
  const answers = await Promise.all(Array.from({ length: 32 }, () => ask("q", { client })));
  expect(answers.every((answer) => answer.hits.length === 3)).toBe(true);
  expect(server.paths().filter((path) => path.startsWith("/search/"))).toHaveLength(64);
});

describe("what is wrong is told", () => {
  test("one store that fails leaves the others and one sentence", async () => {
    project.served.stores["shared"] = {
      status: 503,
      body: { error: "index_corrupt", message: "broken: run doxtr-rag rebuild" },
    };
    await project.serve();
    const answer = await ask();
    expect(titles(answer)).toEqual(["Ship in May."]);
    expect(answer.degraded).toEqual([
      { code: "index_corrupt", detail: "shared store unavailable: broken: run doxtr-rag rebuild" },
    ]);
    expect(answerMarkdown(answer.hits, answer.degraded)).toMatch(
      /\nNote: shared store unavailable: broken: run doxtr-rag rebuild \(index_corrupt\)$/u,
    );
  });

  test("a store whose answer cannot be read fails alone", async () => {
    project.served.stores["shared"] = { body: { pools: [{ hits: [["a"]] }], chunks: {} } };
    await project.serve();
    expect((await ask()).degraded[0]?.detail).toContain("shared store unavailable: The answer's text hash is not text");
  });

  test("degradations of a store are passed on", async () => {
    project.served.stores["private"] = {
      body: { pools: [], chunks: {}, degraded: [{ code: "sparse_missing", detail: "private: no sparse weights" }] },
    };
    await project.serve();
    expect((await ask()).degraded).toEqual([{ code: "sparse_missing", detail: "private: no sparse weights" }]);
  });

  test("every store that fails is one error with all reasons and the next command", async () => {
    const broken = { status: 500, body: { error: "failed", message: "broken" } };
    project.served.stores = { shared: broken, private: broken };
    await project.serve();
    await expect(ask()).rejects.toThrow(
      "No store of the knowledge base could be asked (shared: broken; private: broken): run doxtr-rag status.",
    );
  });

  test.each([
    ["never filled", { status: 404, body: { error: "index_not_built", message: "never filled" } }],
    ["empty", { body: { pools: [], chunks: {}, degraded: [] } }],
  ])("stores that are %s are an empty knowledge base", async (_, store) => {
    project.served.stores = { shared: store, private: store };
    await project.serve();
    await expect(ask()).rejects.toThrow("The knowledge base is empty: run sphinx-build");
  });

  test("a filter that nothing passes is an empty answer", async () => {
    project.served.stores = { shared: [], private: [] };
    await project.serve();
    expect((await ask("q", { documents: "nowhere" })).hits).toEqual([]);
  });

  test.each([
    ["another fingerprint", embedded({ fingerprint: "ab".repeat(32) }), "identity_mismatch"],
    ["no fingerprint", embedded({ fingerprint: undefined }), "identity_mismatch"],
    ["another dimension", embedded({}, [1, 0]), "wrong_dimension"],
    ["no numbers", embedded({}, [Number.NaN, 0, 0]), "bad_answer"],
    ["no vector", embedded({ embedding: null }), "bad_answer"],
  ])("an embedding with %s is refused before a store is asked", async (_, body, kind) => {
    project.served.embed = { body };
    const server = await project.serve();
    await expect(ask()).rejects.toMatchObject({ kind });
    expect(server.paths()).toEqual(["/identity", "/embed"]);
  });

  test("a model that cannot be used is said in the server's words", async () => {
    project.served.embed = {
      status: 503,
      body: { error: "weights_missing", message: "weights missing: run doxtr-rag fetch-weights" },
    };
    await project.serve();
    await expect(ask()).rejects.toThrow("weights missing: run doxtr-rag fetch-weights");
  });

  test("an abort in the middle of a search rejects at once", async () => {
    const server: JsonServer = await project.serve((asked) =>
      asked.path.startsWith("/search/") ? (undefined as never) : project.respond(asked),
    );
    const controller = new AbortController();
    const answer = ask("q", { signal: controller.signal });
    const failed = expect(answer).rejects.toMatchObject({ kind: "aborted" });
    await expect.poll(() => server.paths().filter((path) => path.startsWith("/search/"))).toHaveLength(2);
    const aborted = performance.now();
    controller.abort();
    await failed;
    expect(performance.now() - aborted).toBeLessThan(200);
  });

  test("floats and lists are read as well as base64", async () => {
    project.served.embed = { body: { data: [{ embedding: [1, 0, 0] }], fingerprint: FINGERPRINT } };
    await project.serve();
    expect((await ask()).hits).toHaveLength(3);
  });
});

describe("an embedding server elsewhere", () => {
  test("is asked instead, without the token", async () => {
    const server = await project.serve();
    const other = new Project();
    const elsewhere = await other.serve(() => ({ body: embedded() }));
    const client = project.client({ DOXTR_RAG_EMBED_URL: `${elsewhere.url}/embed` });
    expect((await ask("q", { client })).hits).toHaveLength(3);
    expect(server.paths()).not.toContain("/embed");
    expect(elsewhere.asked[0]?.headers["authorization"]).toBeUndefined();
    await other.close();
  });

  test("that is down is said with its variable", async () => {
    await project.serve();
    const client = project.client({ DOXTR_RAG_EMBED_URL: "http://127.0.0.1:9/embed" });
    await expect(ask("q", { client })).rejects.toThrow(
      "where DOXTR_RAG_EMBED_URL points: start it or unset the variable.",
    );
  });
});
