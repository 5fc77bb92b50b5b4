import type { FreeformTool, JsonText } from '../ir/request.ts';

/** The schema of a function that stands for a freeform tool. */
export const FREEFORM_SCHEMA =
  '{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}' as JsonText;

/** The description of a function that stands for a freeform tool: with its grammar, which nothing else enforces. */
export function freeformDescription({ description = '', syntax, grammar }: FreeformTool): string {
  if (grammar === undefined) return description;
  const rule = `The input has to match this ${syntax ?? 'formal'} grammar:\n${grammar}`;
  return description === '' ? rule : `${description}\n\n${rule}`;
}

/** The arguments of a function that stands for a freeform tool. */
export function freeformArguments(input: string): JsonText {
  return `{"input":${JSON.stringify(input)}}` as JsonText;
}

const OPENING = /^\s*\{\s*"input"\s*:\s*"/;
/** A model that writes no opening by then writes something else. */
const MAX_OPENING_LENGTH = 256;

/**
 * Reads the text out of the arguments `{"input":"…"}` while they stream. Arguments of another form pass as they are, so that
 * the caller sees what the model wrote.
 */
export class FreeformDecoder {
  #pending = '';
  #state: 'before' | 'inside' | 'after' | 'other' = 'before';

  push(delta: string): string {
    if (this.#state === 'other') return delta;
    if (this.#state === 'after') return '';
    this.#pending += delta;
    if (this.#state === 'before') {
      const opening = OPENING.exec(this.#pending);
      if (!opening) return this.#isHopeless() ? this.#passOn() : '';
      this.#pending = this.#pending.slice(opening[0].length);
      this.#state = 'inside';
    }
    return this.#decode();
  }

  /** What is left once the arguments are complete: something only if they have another form, or are cut. */
  end(): string {
    const rest = this.#state === 'before' ? this.#pending : '';
    this.#state = 'after';
    return rest;
  }

  #isHopeless(): boolean {
    const text = this.#pending.trimStart();
    return (
      text.length > MAX_OPENING_LENGTH || (text !== '' && !text.startsWith('{')) || /^\{\s*[^\s"]/.test(text)
    );
  }

  #passOn(): string {
    this.#state = 'other';
    return this.#pending;
  }

  /** What is complete of the string: an escape, or a pair of them, that is cut waits for its rest. */
  #decode(): string {
    const text = this.#pending;
    let at = 0;
    while (at < text.length && text[at] !== '"') {
      const length = text[at] === '\\' ? escapeLength(text, at) : 1;
      if (at + length > text.length) break;
      at += length;
    }
    if (text[at] === '"') this.#state = 'after';
    this.#pending = text.slice(at);
    return unescaped(text.slice(0, at));
  }
}

/** A surrogate pair goes out whole. */
function escapeLength(text: string, at: number): number {
  if (text[at + 1] !== 'u') return 2;
  const isHigh = /^\\u[dD][89abAB]/.test(text.slice(at, at + 4));
  if (!isHigh || at + 6 > text.length) return 6;
  const next = text.slice(at + 6, at + 8);
  return next === '' || next === '\\' || next === '\\u' ? 12 : 6;
}

const SIMPLE_ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** Models write line breaks into strings too, which `JSON.parse` would refuse. */
function unescaped(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replace(/\\(?:u([0-9a-fA-F]{4})|(.))/gs, (_, code: string | undefined, letter = '') => {
    if (code !== undefined) return String.fromCharCode(Number.parseInt(code, 16));
    return SIMPLE_ESCAPES[letter] ?? letter;
  });
}
