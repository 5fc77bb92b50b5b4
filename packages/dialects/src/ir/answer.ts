import type { TokenUsage } from '@weighbridge/domain';
import type { Opaque, OwnForm } from './request.ts';

/** What the writers of an answer share. */
export interface AnswerContext {
  /** The model as the caller named it. */
  readonly model: string;
  /** An id in the caller's dialect, without its prefix. */
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  /** What the reader that meters the vendor's bytes has seen so far; undefined if the vendor reported nothing. */
  readonly usage: () => TokenUsage | undefined;
  /** A stream ends with its usage, where the caller can choose. */
  readonly wantsUsage: boolean;
  /** The namespaces of the caller's tools, by the names of the tools. */
  readonly namespaces: ReadonlyMap<string, string>;
  /** The tools whose calls have a form of their own, by name. */
  readonly ownForms: ReadonlyMap<string, OwnForm>;
  /** The answer can be continued by its id, since this service stores it. */
  readonly isStored: boolean;
  /** What an answer repeats of the request, in formats that do. */
  readonly repeated: object;
  /** The id of the response that the caller continues, if any. */
  readonly previousId: string | undefined;
  /** Puts an opaque value in an envelope, with the reasoning that the caller's dialect has no place for. */
  readonly seal: (opaque: Opaque, text?: string) => string;
}

/** Stands for the signature of reasoning that has none. */
export const UNSIGNED: Opaque = { owner: 'none', kind: 'thought', data: '', id: '' };
