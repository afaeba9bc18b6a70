/** A question as a vector, made by the model that the stores were filled with. */
import type { Call } from "./client.js";
import type { Embedding } from "./endpoints.js";
import { KnowledgeBaseError } from "./errors.js";
import { READ_MS, requestJson } from "./http.js";
import { isObject, listOf, objectOf } from "./json.js";
import type { JsonObject } from "./json.js";
import { successful } from "./server.js";

/** A model that was just started loads first. */
const FIRST_EMBED_MS = 30_000;
const BYTES_PER_NUMBER = 4;

/** Return the vector of a question; throws when another model made it. */
export async function embedQuery(call: Call, query: string): Promise<Float32Array> {
  const { embedding } = call.base.endpoints;
  const answer = objectOf(
    await asked(call, { input: query, input_type: "query", encoding_format: "base64" }),
    "embedding",
  );
  if (answer["fingerprint"] !== embedding.fingerprint) {
    throw new KnowledgeBaseError(
      "identity_mismatch",
      `The embedding server has loaded another model than ${embedding.model}, which filled the stores: run doxtr-rag serve --stop, then search again.`,
    );
  }
  return vectorIn(answer, embedding);
}

/** Return a vector as base64 of little-endian float32. */
export function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * BYTES_PER_NUMBER);
  vector.forEach((value, index) => bytes.writeFloatLE(value, index * BYTES_PER_NUMBER));
  return bytes.toString("base64");
}

async function asked({ base, settings, server, signal, needsServer }: Call, body: JsonObject): Promise<unknown> {
  const elsewhere = settings.embedUrl;
  if (elsewhere === undefined) {
    const url = base.endpoints.embedding.embedUrl;
    return server.request(base, { url, body, signal, limitMs: needsServer ? READ_MS : FIRST_EMBED_MS });
  }
  const answer = await requestJson({ method: "POST", url: elsewhere, body, limitMs: READ_MS, signal }).catch(
    (error: unknown) => {
      if (error instanceof KnowledgeBaseError && error.kind === "unreachable") {
        throw new KnowledgeBaseError(
          "embed_server_down",
          `${error.message.replace(/\.$/u, "")}, where DOXTR_RAG_EMBED_URL points: start it or unset the variable.`,
        );
      }
      throw error;
    },
  );
  return successful(answer, elsewhere);
}

function vectorIn(answer: JsonObject, { dimension }: Embedding): Float32Array {
  const first = answer["embedding"] === undefined ? listOf(answer["data"], "list of embeddings")[0] : answer;
  const given: unknown = isObject(first) ? first["embedding"] : undefined;
  const vector = typeof given === "string" ? decoded(given) : Float32Array.from(listOf(given, "embedding"), Number);
  if (vector.length !== dimension) {
    throw new KnowledgeBaseError(
      "wrong_dimension",
      `The embedding server answered with ${vector.length} dimensions, the stores have ${dimension}: run doxtr-rag serve --stop, then search again.`,
    );
  }
  if (!vector.every(Number.isFinite))
    throw new KnowledgeBaseError(
      "bad_answer",
      "The embedding server answered with something that is no vector: run doxtr-rag doctor.",
    );
  return vector;
}

function decoded(base64: string): Float32Array {
  const bytes = Buffer.from(base64, "base64");
  const length = Math.floor(bytes.length / BYTES_PER_NUMBER);
  return Float32Array.from({ length }, (_, index) => bytes.readFloatLE(index * BYTES_PER_NUMBER));
}
