/** How places in a knowledge base are named. */

export type ChunkPlace = { readonly document: string; readonly anchor: string };

/** Return the section a chunk is a part of: its id without `~n`. */
export function sectionId(chunkId: string): string {
  const anchorAt = chunkId.indexOf("#");
  const partAt = anchorAt < 0 ? -1 : chunkId.indexOf("~", anchorAt);
  return partAt < 0 ? chunkId : chunkId.slice(0, partAt);
}

/** Return the document and anchor that a chunk id of a project names. */
export function chunkPlace(chunkId: string, project: string): ChunkPlace {
  const section = sectionId(chunkId);
  const anchorAt = section.indexOf("#");
  const path = anchorAt < 0 ? section : section.slice(0, anchorAt);
  const document = path.startsWith(`${project}/`) ? path.slice(project.length + 1) : path;
  return {
    document: unreserved(document, "23", "#"),
    anchor: anchorAt < 0 ? "" : unreserved(section.slice(anchorAt + 1), "7E", "~"),
  };
}

/**
 * Return whether a document's name or source file passes a filter, letter case ignored.
 *
 * A filter with `*` or `?` is a glob over the whole name, where `*` crosses slashes; any other is a part of it.
 */
export function documentMatcher(filter: string): (name: string) => boolean {
  const wanted = filter.trim().toLowerCase();
  if (!/[*?]/u.test(wanted)) return (name) => name.toLowerCase().includes(wanted);
  return (name) => matchesGlob(Array.from(wanted), Array.from(name.toLowerCase()));
}

/** Compare code point by code point, as Python orders text. */
export function compareText(left: string, right: string): number {
  const [others, ours] = [right[Symbol.iterator](), left[Symbol.iterator]()];
  for (;;) {
    const [a, b] = [ours.next(), others.next()];
    if (a.done || b.done) return Number(b.done ?? false) - Number(a.done ?? false);
    const difference = (a.value.codePointAt(0) ?? 0) - (b.value.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
}

/** Undo the percent-encoding of one separator in a chunk id. */
function unreserved(name: string, code: string, separator: string): string {
  return name.replace(new RegExp(`%((?:25)*)${code}`, "gu"), (_, deeper: string) =>
    deeper === "" ? separator : `%${deeper.slice(2)}${code}`,
  );
}

/** Match greedily with one place to come back to, so that no pattern takes more than `n * m` steps. */
function matchesGlob(pattern: readonly string[], name: readonly string[]): boolean {
  let [p, n, starAt, resumeAt] = [0, 0, -1, 0];
  while (n < name.length) {
    if (pattern[p] === "*") {
      [starAt, resumeAt] = [p, n];
      p += 1;
    } else if (p < pattern.length && (pattern[p] === "?" || pattern[p] === name[n])) {
      p += 1;
      n += 1;
    } else if (starAt >= 0) {
      resumeAt += 1;
      [p, n] = [starAt + 1, resumeAt];
    } else {
      return false;
    }
  }
  return pattern.slice(p).every((character) => character === "*");
}
