/** Rows of styled text as a Pi component that never draws wider than it may. */
import { line } from "./display.js";
import type { Component } from "./pi-types.js";

export type Span = { readonly text: string; readonly style?: (text: string) => string };
export type Row = readonly Span[];

const MAX_ROW_CHARACTERS = 1_000;
/** Below it no character takes two columns. */
const FIRST_WIDE_CHARACTER = 0x1100;

/** Return a component that shows each row on one line, cut where the terminal ends. */
export function rows(content: readonly Row[]): Component {
  return {
    render: (width) => content.map((row) => drawn(row, width)),
    invalidate: () => undefined,
  };
}

/** Return a component that shows a text on as many lines as it needs. */
export function paragraph(text: string, style: (text: string) => string): Component {
  return {
    render: (width) => wrapped(line(text, MAX_ROW_CHARACTERS), Math.max(Math.floor(width), 1)).map(style),
    invalidate: () => undefined,
  };
}

/** Return the columns that a text takes at most; wider than the truth for rare scripts, never narrower. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const character of text) columns += columnsOfCharacter(character);
  return columns;
}

function drawn(row: Row, width: number): string {
  let free = Math.max(Math.floor(width), 0);
  let shown = "";
  for (const { text, style } of row) {
    const fitting = fit(oneLine(text), free);
    free -= columnsOf(fitting);
    shown += style && fitting !== "" ? style(fitting) : fitting;
  }
  return shown;
}

/** Return a span on one line; the spaces that separate it from its neighbours stay. */
function oneLine(text: string): string {
  return [
    /^ */u.exec(text)?.[0],
    line(text, MAX_ROW_CHARACTERS),
    text.trim() === "" ? "" : /[^ ]( *)$/u.exec(text)?.[1],
  ].join("");
}

function wrapped(text: string, columns: number): string[] {
  const lines: string[] = [];
  let rest = text;
  while (columnsOf(rest) > columns) {
    const fitting = fit(rest, columns);
    const space = fitting.lastIndexOf(" ");
    const kept = space > 0 ? fitting.slice(0, space) : fitting;
    if (kept === "") break;
    lines.push(kept);
    rest = rest.slice(kept.length).trimStart();
  }
  return [...lines, fit(rest, columns)];
}

function fit(text: string, columns: number): string {
  let free = columns;
  let fitting = "";
  for (const character of text) {
    free -= columnsOfCharacter(character);
    if (free < 0) break;
    fitting += character;
  }
  return fitting;
}

function columnsOfCharacter(character: string): number {
  return (character.codePointAt(0) ?? 0) < FIRST_WIDE_CHARACTER ? 1 : 2;
}
