import { withCacheMarks } from './conversation/cacheMarks.ts';
import { countedBody, GEMINI_COUNT_SHAPE, requestToCount } from './counting.ts';
import type { Format, TargetFormat } from './format.ts';
import { TARGETS, TRANSLATORS } from './formats.ts';
import type { ModelRequest, OwnForm } from './ir/request.ts';
import { type ParseLimits, parseBody } from './json/parseBody.ts';
import { writeJson } from './json/writeJson.ts';
import type { ResponseStorage } from './loss/fields.ts';
import { type Loss, Losses, type LossPolicy } from './loss/losses.ts';
import type { ToolChanges } from './tools/answerTools.ts';
import type { SealScope } from './wire/seal.ts';
import type { Target } from './writeContext.ts';

/** A caller's request, read once: each attempt at another dialect writes it for its target. */
export interface ParsedRequest {
  readonly format: Format;
  readonly request: ModelRequest;
  /** What the answer repeats of it. */
  readonly repeated: object;
  /** What no other dialect has. */
  readonly losses: Losses;
}

export interface TranslationOptions {
  readonly target: Target;
  readonly scope: SealScope;
  readonly policy: LossPolicy;
  /** The target is asked to count the request's tokens only. */
  readonly counts?: boolean;
  /** The target is asked to cache the prompt, unless the request says itself what to cache. */
  readonly cachesPrompt?: boolean;
}

/** What the answer to a translated request has to be translated by. */
export interface AnswerPlan {
  /** The vendor's format. */
  readonly from: TargetFormat;
  /** The caller's. */
  readonly to: Format;
  readonly changes: ToolChanges;
  readonly namespaces: ReadonlyMap<string, string>;
  readonly ownForms: ReadonlyMap<string, OwnForm>;
  /** What the answer repeats of the request; empty for formats that repeat nothing. */
  readonly repeated: object;
  readonly stream: boolean;
  readonly wantsUsage: boolean;
}

export type Translation =
  | {
      readonly kind: 'translated';
      /** The text of the vendor's body. */
      readonly body: string;
      /** What was changed or dropped. */
      readonly losses: readonly Loss[];
      readonly answer: AnswerPlan;
    }
  | {
      readonly kind: 'refused';
      /** Every field because of which the request is not sent. */
      readonly losses: readonly Loss[];
    };

/** What of a request its body does not say. */
export interface Asked extends ParseLimits {
  /** Set for formats in which the path says it. */
  readonly stream?: boolean | undefined;
  /** The caller wants to know the request's tokens only. */
  readonly counts?: boolean;
  /** What becomes of the response, which its vendor does not store. Default: `nowhere`. */
  readonly storage?: ResponseStorage;
}

/** Reads a caller's body. Undefined if the bytes are not JSON. Throws `TooManyItems`, before anything is parsed. */
export function parseRequest(
  format: Format,
  bytes: Uint8Array,
  { stream, counts = false, storage, ...limits }: Asked = {},
): ParsedRequest | undefined {
  const { shape, readRequest, repeatedOf } = TRANSLATORS[format];
  const parsed = parseBody(bytes, counts && format === 'gemini' ? GEMINI_COUNT_SHAPE : shape, limits);
  if (!parsed) return undefined;
  const losses = new Losses();
  const value = counts ? requestToCount(format, parsed.value) : parsed.value;
  const read = readRequest(value, { losses, storage, kept: parsed.kept });
  // What limits or shapes the output has no tokens, so that it is no reason to refuse a count.
  const request = counts ? { ...read, sampling: {}, maxTokens: undefined, limitPath: undefined } : read;
  const repeated = counts ? NOTHING : (repeatedOf?.(bytes, limits) ?? NOTHING);
  return { format, request: stream === undefined ? request : { ...request, stream }, repeated, losses };
}

const NOTHING = {};

/** Writes a request for a target, or names all that keeps it from being sent. */
export function translateRequest(
  { format, request, repeated, losses: read }: ParsedRequest,
  { target, scope, policy, counts = false, cachesPrompt = false }: TranslationOptions,
): Translation {
  const losses = read.copy();
  const marked = cachesPrompt && target.quirks.cacheMarks ? withCacheMarks(request, target.format) : request;
  const { body, changes } = TARGETS[target.format].writeRequest(marked, { ...target, scope, losses });
  const refused = losses.refused(policy);
  if (refused.length > 0) return { kind: 'refused', losses: refused };
  const sent = counts ? countedBody(target.format, target.model, body) : body;
  const { stream, wantsUsage } = request;
  const answer: AnswerPlan = {
    from: target.format,
    to: format,
    changes,
    namespaces: namespacesOf(request),
    ownForms: ownFormsOf(request),
    repeated,
    stream,
    wantsUsage,
  };
  return { kind: 'translated', body: writeJson(sent), losses: losses.listed, answer };
}

function namespacesOf({ tools }: ModelRequest): ReadonlyMap<string, string> {
  const namespaces = new Map<string, string>();
  for (const { name, namespace } of tools) if (namespace !== undefined) namespaces.set(name, namespace);
  return namespaces;
}

function ownFormsOf({ tools }: ModelRequest): ReadonlyMap<string, OwnForm> {
  const forms = new Map<string, OwnForm>();
  for (const { name, ownForm } of tools) if (ownForm) forms.set(name, ownForm);
  return forms;
}
