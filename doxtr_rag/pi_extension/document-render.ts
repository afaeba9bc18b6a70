/** A document's outline and a section between its neighbours, as Markdown. */
import { addressOf, hitOf } from "./chunks.js";
import { LIMITS, RENDERING } from "./contract.js";
import { lengthOf, line } from "./display.js";
import type { DocumentSections, Reading, SectionText } from "./documents.js";
import { headMarkdown, isWithinCaps, paragraphs, quotedMarkdown } from "./render.js";
import type { Cap } from "./render.js";

const SECTION_CAP: Cap = { chars: 30_000, lines: 1_200 };
const NEIGHBOUR_CAP: Cap = { chars: LIMITS.max_chunk_chars, lines: LIMITS.max_chunk_lines / 2 };
const MAX_LEVEL = 8;

/** Return the sections of a document in reading order, with what kb_read calls them. */
export function outlineMarkdown(found: DocumentSections): string {
  const first = found.sections[0]?.first;
  const head = [
    `## ${line(found.document)}`,
    `Project: ${line(found.project)}, store: ${line(found.store)}`,
    ...(first && addressOf({ ...first, anchor: "" }) !== ""
      ? [`Source: ${line(addressOf({ ...first, anchor: "" }))}`]
      : []),
  ].join("\n");
  const entries = found.sections.map(outlineEntry);
  let kept = entries.length;
  const composed = (): string => {
    const missing = entries.length - kept;
    const gap = missing > 0 ? `[cut: ${missing} more sections that did not fit]` : "";
    return paragraphs([RENDERING.preamble, head, entries.slice(0, kept).join("\n"), gap]);
  };
  while (kept > 0 && !isWithinCaps(composed())) kept = Math.floor(kept * 0.9);
  return composed();
}

/** Return a section whole, with the starts of the sections before and after it. */
export function readingMarkdown(found: DocumentSections, { section, before, after }: Reading): string {
  return paragraphs([
    RENDERING.preamble,
    sectionMarkdown(found, section, "### ", SECTION_CAP),
    neighbourMarkdown(found, before, "#### Before it: "),
    neighbourMarkdown(found, after, "#### After it: "),
  ]);
}

function outlineEntry({ first, title, text }: SectionText): string {
  const level = Math.min(Math.max(first.breadcrumb.length - 1, 0), MAX_LEVEL);
  const name = first.anchor === "" ? `section "${line(title)}"` : `section ${line(first.anchor)}`;
  return `${"  ".repeat(level)}- ${line(title)} (${name}, ${lengthOf(text)} characters)`;
}

function neighbourMarkdown(found: DocumentSections, section: SectionText | undefined, heading: string): string {
  return section ? sectionMarkdown(found, section, heading, NEIGHBOUR_CAP) : "";
}

function sectionMarkdown(found: DocumentSections, section: SectionText, heading: string, cap: Cap): string {
  const hit = hitOf(section.first, found.store, 1, "");
  return [...headMarkdown(hit, heading), "", ...quotedMarkdown(section.text, cap)].join("\n");
}
