/** What the environment says; the only file that reads it. */
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { KnowledgeBaseError } from "./errors.js";

export type Environment = Readonly<Record<string, string | undefined>>;
export type Headers = ReadonlyMap<string, string>;

export type Settings = {
  readonly endpointsPath: string | undefined;
  readonly embedUrl: URL | undefined;
  readonly searchPath: readonly string[];
  readonly sharedHeaders: Headers;
  readonly privateHeaders: Headers;
  readonly hasAutoContext: boolean;
  /** Whether the agent gets private pages, or the shared ones alone. */
  readonly hasPrivatePages: boolean;
};

const YES = new Set(["1", "true", "yes", "on"]);
const HEADER = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=([^\u0000-\u001f\u007f]*)$/u;

/** Return whether the environment turns the extension off; never throws. */
export function isDisabled(environment: Environment): boolean {
  return isOn(environment["DOXTR_RAG_PI_DISABLE"]);
}

/** Return whether the user chose the endpoints; a relative path leads to another file in each folder. */
export function hasChosenEndpoints({ endpointsPath }: Settings): boolean {
  return endpointsPath !== undefined && isAbsolute(endpointsPath);
}

/** Read the settings; throws when one cannot be understood. */
export function readSettings(environment: Environment): Settings {
  const variable = (name: string): string => environment[`DOXTR_RAG_${name}`]?.trim() ?? "";
  return {
    endpointsPath: withHome(variable("ENDPOINTS"), environment),
    embedUrl: addressOf(variable("EMBED_URL")),
    searchPath: (environment["PATH"] ?? environment["Path"] ?? "").split(process.platform === "win32" ? ";" : ":"),
    sharedHeaders: headersOf("SHARED_STORE_HEADERS", variable("SHARED_STORE_HEADERS")),
    privateHeaders: headersOf("LOCAL_STORE_HEADERS", variable("LOCAL_STORE_HEADERS")),
    hasAutoContext: isOn(environment["DOXTR_RAG_AUTO_CONTEXT"]),
    hasPrivatePages: isAllAllowed(variable("AGENT_SCOPE")),
  };
}

/** Return whether every store may be asked; throws at an unknown word, so that nothing private slips through. */
function isAllAllowed(scope: string): boolean {
  const word = scope.toLowerCase();
  if (["", "all", "shared"].includes(word)) return word !== "shared";
  throw new KnowledgeBaseError(
    "config",
    "DOXTR_RAG_AGENT_SCOPE is not one of shared, all: correct it or unset it, then start Pi again.",
  );
}

function isOn(value: string | undefined): boolean {
  return YES.has(value?.trim().toLowerCase() ?? "");
}

function withHome(path: string, environment: Environment): string | undefined {
  if (path === "") return undefined;
  return path.startsWith("~/") ? join(environment["HOME"] ?? homedir(), path.slice(2)) : path;
}

function addressOf(text: string): URL | undefined {
  if (text === "") return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !["http:", "https:"].includes(url.protocol) || url.username !== "" || url.password !== "") {
    throw new KnowledgeBaseError(
      "config",
      "DOXTR_RAG_EMBED_URL is not an http or https address without user and password: correct it or unset it.",
    );
  }
  if (url.pathname === "/") url.pathname = "/embed";
  return url;
}

function headersOf(name: string, text: string): Headers {
  const pairs = text
    .split(";")
    .filter((part) => part.trim() !== "")
    .map((part) => HEADER.exec(part));
  return new Map(
    pairs.map((pair) => {
      if (!pair)
        throw new KnowledgeBaseError("config", `DOXTR_RAG_${name} is not of the form k=v;k=v: correct it or unset it.`);
      return [(pair[1] ?? "").toLowerCase(), (pair[2] ?? "").trim()];
    }),
  );
}
