import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { documentSections } from "../documents.js";
import { search } from "../search.js";
import type { Answer } from "../search.js";
import { FINGERPRINT, Project, wireChunk } from "./support/knowledge-base.js";
import { JsonServer } from "./support/json-server.js";
import type { Asked, Reply } from "./support/json-server.js";

const FOLDER = "/api/v2/tenants/default_tenant/databases/doxtr_shared/collections";

let project: Project;
let chroma: JsonServer;
let collection: Reply;
let found: { ids: string[]; documents: string[]; metadatas: Record<string, string>[] };

beforeEach(async () => {
  project = new Project();
  project.served.stores = { private: [wireChunk("p/noter/plan#goals", "Ship in May.")] };
  collection = { body: { id: "uuid-1", name: "m_3", dimension: 3, metadata: { fingerprint: FINGERPRINT } } };
  found = {
    ids: ["p/guide#install", "p/guide#use~2"],
    documents: ["Run pip install.", "Open it."],
    metadatas: ["install", "use"].map((anchor) => ({
      source_file: "source/guide.rst",
      section_title: anchor,
      breadcrumb: JSON.stringify(["Guide", anchor]),
      access_scope: "SHARED_ORG",
      content_hash: "c",
      provenance: JSON.stringify({ kind: "anchor", value: anchor, end: null }),
      project: "p",
      url: "guide.html",
      text_hash: `t-${anchor}`,
    })),
  };
  chroma = await JsonServer.start(respond);
  await project.serve();
  project.changeStore("shared", { mode: "http", port: chroma.port });
});
afterEach(async () => {
  await chroma.stop();
  await project.close();
});

function respond(asked: Asked): Reply {
  if (asked.path === `${FOLDER}/m_3`) return collection;
  if (asked.path === `${FOLDER}/uuid-1/count`) return { body: 2 };
  if (asked.path === `${FOLDER}/uuid-1/get`) return { body: found };
  if (asked.path === `${FOLDER}/uuid-1/query`) {
    return {
      body: {
        ids: [found.ids],
        documents: [found.documents],
        metadatas: [found.metadatas],
        distances: [found.ids.map((_, index) => index / 10)],
      },
    };
  }
  return { status: 404, body: { error: "NotFoundError", message: "no" } };
}

function ask(environment: Record<string, string> = {}, documents = ""): Promise<Answer> {
  return search(
    project.client(environment),
    project.root,
    { query: "q", topK: 5, documents },
    { mayLaunch: true, signal: undefined },
  );
}

test("a Chroma store is asked with two requests", async () => {
  const { hits, degraded } = await ask();
  expect(hits.map(({ store, document, citation, url }) => [store, document, citation, url])).toEqual([
    ["shared", "guide", "[Guide §install]", "guide.html#install"],
    ["private", "noter/plan", "[Guide §goals]", "noter/plan.html#goals"],
    ["shared", "guide", "[Guide §use]", "guide.html#use"],
  ]);
  expect(degraded).toEqual([]);
  expect(chroma.paths()).toEqual([`${FOLDER}/m_3`, `${FOLDER}/uuid-1/query`]);
  expect(chroma.asked[1]?.body).toEqual({
    query_embeddings: [[1, 0, 0]],
    n_results: 50,
    include: ["documents", "metadatas", "distances"],
  });
});

test("the server's token never goes to Chroma", async () => {
  await ask();
  expect(JSON.stringify(chroma.asked)).not.toContain(project.token);
});

test("documents are sifted from a larger window", async () => {
  found.metadatas[1] = { ...found.metadatas[1], source_file: "source/other.rst" };
  const { hits } = await ask({}, "OTHER");
  expect(chroma.asked[1]?.body).toMatchObject({ n_results: 500 });
  expect(hits.filter(({ store }) => store === "shared").map(({ text }) => text)).toEqual(["Open it."]);
});

test("metadata that is missing leaves what the id says", async () => {
  found.metadatas = [];
  const [hit] = (await ask()).hits;
  expect(hit).toMatchObject({ document: "p/guide", citation: "[p/guide]", url: "", scope: "SHARED_ORG" });
});

test("a Chroma store gives a document by its source file", async () => {
  const sections = await project
    .client()
    .call(project.root, undefined, { mayLaunch: true }, (call) => documentSections(call, "source/guide.rst"));
  expect(sections.sections.map(({ title, text }) => [title, text])).toEqual([
    ["install", "Run pip install."],
    ["use", "Open it."],
  ]);
  expect(chroma.asked[1]?.body).toMatchObject({ where: { source_file: "source/guide.rst" } });
});

describe("a Chroma store is left out, and said", () => {
  test.each<[string, () => void, string]>([
    [
      "with another dimension",
      () => (collection = { body: { id: "uuid-1", dimension: 1024, metadata: null } }),
      "identity_mismatch",
    ],
    [
      "with another fingerprint",
      () => (collection = { body: { id: "uuid-1", dimension: 3, metadata: { fingerprint: "x" } } }),
      "identity_mismatch",
    ],
    [
      "without the collection",
      () => (collection = { status: 404, body: { error: "NotFoundError", message: "no" } }),
      "index_not_built",
    ],
    ["that redirects", () => (collection = { status: 301, headers: { Location: "http://192.0.2.1/" } }), "bad_answer"],
    ["that answers nonsense", () => (collection = { raw: "<html>" }), "bad_answer"],
  ])("%s", async (_, spoil, code) => {
    spoil();
    const answer = await ask();
    expect(answer.hits.map(({ store }) => store)).toEqual(["private"]);
    expect(answer.degraded).toMatchObject([
      { code, detail: expect.stringContaining("shared store unavailable: ") as string },
    ]);
    expect(chroma.paths()).toHaveLength(1);
  });

  test("that is down", async () => {
    await chroma.stop();
    expect((await ask()).degraded).toEqual([
      { code: "unreachable", detail: `shared store unavailable: Nothing answers at ${chroma.url} (ECONNREFUSED).` },
    ]);
  });
});

describe("headers", () => {
  test("come from the environment, the named ones only", async () => {
    project.changeStore("shared", { header_keys: ["X-Team"] });
    await ask({
      DOXTR_RAG_SHARED_STORE_HEADERS: "x-team=docs;Authorization=secret value",
      DOXTR_RAG_LOCAL_STORE_HEADERS: "X-Team=wrong",
    });
    expect(chroma.asked.map(({ headers }) => [headers["x-team"], headers["authorization"]])).toEqual([
      ["docs", undefined],
      ["docs", undefined],
    ]);
  });

  test("without a value are said with the variable", async () => {
    project.changeStore("shared", { header_keys: ["X-Team"] });
    expect((await ask()).degraded[0]?.detail).toContain(
      "the header X-Team has no value: set DOXTR_RAG_SHARED_STORE_HEADERS",
    );
    expect(chroma.asked).toEqual([]);
  });

  const foreign = { host: "192.0.2.1", ssl: true, header_keys: ["X-Team"] };

  test.each([
    ["found in the folder", {}],
    ["named by a path that leads elsewhere in each folder", { DOXTR_RAG_ENDPOINTS: ".doxtr/endpoints.json" }],
  ])("are not sent to a machine that only a file %s names", async (_, environment) => {
    project.changeStore("shared", foreign);
    const given = { DOXTR_RAG_SHARED_STORE_HEADERS: "X-Team=docs", ...environment };
    expect((await ask(given)).degraded).toEqual([
      {
        code: "insecure",
        detail: `shared store unavailable: the values of DOXTR_RAG_SHARED_STORE_HEADERS are not sent to 192.0.2.1, which only a file of this project names: when you trust it, set DOXTR_RAG_ENDPOINTS=${project.path}`,
      },
    ]);
  });

  test("are sent to a machine in the endpoints that the user chose", async () => {
    project.changeStore("shared", foreign);
    const sent: unknown[] = [];
    const original = globalThis.fetch;
    globalThis.fetch = (url, options) => {
      sent.push([String(url), new Headers(options?.headers).get("x-team")]);
      return Promise.reject(new Error("not sent by this test"));
    };
    try {
      await ask({ DOXTR_RAG_SHARED_STORE_HEADERS: "X-Team=docs", DOXTR_RAG_ENDPOINTS: project.path });
    } finally {
      globalThis.fetch = original;
    }
    expect(sent).toEqual([[`https://192.0.2.1:${chroma.port}${FOLDER}/m_3`, "docs"]]);
  });

  test("are not sent in the clear to another machine", async () => {
    project.changeStore("shared", { host: "192.0.2.1", header_keys: ["X-Team"] });
    expect((await ask({ DOXTR_RAG_SHARED_STORE_HEADERS: "X-Team=docs" })).degraded[0]).toMatchObject({
      code: "insecure",
    });
  });
});
