/** JSON text as it was written: numbers, escapes and the order of members are the writer's own. */
export type JsonText = string & { readonly __json: unique symbol };

/** A value of the caller's request, and where it was, such as `generationConfig.topK`. */
export interface Setting<Value> {
  readonly value: Value;
  readonly path: string;
}

/**
 * A value that only its owner understands: a signature, encrypted reasoning, a thought signature. It travels through the
 * caller's history and returns to its owner only.
 */
export interface Opaque {
  /** Who issued it, such as `anthropic`. */
  readonly owner: string;
  readonly kind: OpaqueKind;
  readonly data: string;
  /** The owner's id of the item that had it; empty if it has none. */
  readonly id: string;
  /** The account that may get it back; undefined for a value that came without an envelope. */
  readonly envelope?: OpaqueEnvelope | undefined;
}

export type OpaqueKind = 'signature' | 'redacted' | 'encrypted' | 'thought';

/** What an envelope says of the value in it, to be verified for the account that would get it. */
interface OpaqueEnvelope {
  readonly mac: string;
  /** The reasoning that the value belongs to, where the caller's dialect had no other place for it. */
  readonly text: string;
}

/** Asks the vendor to cache the prompt up to here. */
export interface CacheMark {
  readonly ttl?: '5m' | '1h' | undefined;
  /** Where the caller's request has it; undefined: in what it is on. */
  readonly path?: string | undefined;
}

/** Where the mark of a part or a tool is. */
export function markPath({ path, cache }: { readonly path: string; readonly cache?: CacheMark | undefined }) {
  return cache?.path ?? `${path}.cache_control`;
}

export type MediaSource =
  | { readonly from: 'base64'; readonly type: string; readonly data: string }
  | { readonly from: 'url'; readonly url: string; readonly type?: string | undefined }
  | { readonly from: 'file'; readonly owner: string; readonly id: string };

export type MediaKind = 'image' | 'document' | 'audio' | 'video';

interface PartBase {
  /** Where the caller's request has it. */
  readonly path: string;
  readonly cache?: CacheMark | undefined;
}

export interface TextPart extends PartBase {
  readonly kind: 'text';
  readonly text: string;
}

interface RefusalPart extends PartBase {
  readonly kind: 'refusal';
  readonly text: string;
}

export interface MediaPart extends PartBase {
  readonly kind: 'media';
  readonly media: MediaKind;
  readonly source: MediaSource;
  readonly name?: string | undefined;
  readonly detail?: string | undefined;
}

export interface ReasoningPart extends PartBase {
  readonly kind: 'reasoning';
  readonly text: string;
  readonly opaque?: Opaque | undefined;
}

export interface CallPart extends PartBase {
  readonly kind: 'call';
  readonly id: string;
  readonly name: string;
  /** `json`: `input` is the text of a JSON object, or of what a model wrote in its place. `text`: of a freeform tool. */
  readonly form: 'json' | 'text';
  readonly input: string;
}

export interface ResultPart extends PartBase {
  readonly kind: 'result';
  /** The id of the call that it answers. */
  readonly id: string;
  readonly failed: boolean;
  readonly parts: readonly Part[];
}

/** In a result: a deferred tool that was found, whose definition the model may see from here on. */
interface ToolReferencePart extends PartBase {
  readonly kind: 'reference';
  readonly name: string;
}

export type Part =
  | TextPart
  | RefusalPart
  | MediaPart
  | ReasoningPart
  | CallPart
  | ResultPart
  | ToolReferencePart;

export interface Message {
  /** `instruction`: by the developer, within the conversation. */
  readonly role: 'user' | 'assistant' | 'instruction';
  readonly parts: readonly Part[];
}

/** What vendors run themselves. */
export type HostedService = 'web_search' | 'web_fetch' | 'code' | 'maps' | 'other';

/** A tool whose calls have a form of their own in the caller's dialect, though the caller runs it. */
export type OwnForm = 'local_shell' | 'tool_search';

interface ToolBase {
  readonly path: string;
  readonly name: string;
  /** The beginning of its name that is the caller's namespace; undefined if it has none. */
  readonly namespace?: string | undefined;
  readonly ownForm?: OwnForm | undefined;
}

interface FunctionTool extends ToolBase {
  readonly kind: 'function';
  readonly description?: string | undefined;
  /** A JSON schema; undefined if the tool takes no arguments. */
  readonly schema?: JsonText | undefined;
  readonly strict?: boolean | undefined;
  /** Its definition is sent once a result refers to it. */
  readonly deferred?: boolean | undefined;
  readonly cache?: CacheMark | undefined;
}

/** A tool that takes a text, which a grammar may restrict. */
export interface FreeformTool extends ToolBase {
  readonly kind: 'freeform';
  readonly description?: string | undefined;
  readonly syntax?: string | undefined;
  readonly grammar?: string | undefined;
}

/** Its `name` is the vendor's type of tool. */
interface HostedTool extends ToolBase {
  readonly kind: 'hosted';
  readonly service: HostedService;
}

export type Tool = FunctionTool | FreeformTool | HostedTool;

export interface ToolChoice {
  readonly path: string;
  readonly mode: 'auto' | 'none' | 'any' | 'one';
  /** Of the one tool; else empty. */
  readonly name: string;
  /** The only functions that may be called, of `auto` and `any`; undefined: all. */
  readonly allowed?: readonly string[] | undefined;
}

/** Effort that a model spends on reasoning, in rising order. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type Effort = (typeof EFFORTS)[number];

export interface Reasoning {
  readonly path: string;
  readonly effort?: Setting<Effort> | undefined;
  /** Tokens. */
  readonly budget?: Setting<number> | undefined;
  /** The model decides how much it reasons. */
  readonly isAdaptive: boolean;
  /** Whether the caller wants to see a summary of it. */
  readonly isShown: boolean;
  /** Where the caller says so; undefined if it is the default. */
  readonly shownPath?: string | undefined;
}

/** The answer has to be JSON; of any shape if there is no schema. */
export interface StructuredOutput {
  readonly path: string;
  readonly schema?: JsonText | undefined;
  readonly name?: string | undefined;
  readonly description?: string | undefined;
  readonly strict?: boolean | undefined;
}

export interface Sampling {
  readonly temperature?: Setting<number> | undefined;
  readonly topP?: Setting<number> | undefined;
  readonly topK?: Setting<number> | undefined;
  readonly seed?: Setting<number> | undefined;
  readonly presencePenalty?: Setting<number> | undefined;
  readonly frequencyPenalty?: Setting<number> | undefined;
  readonly stop?: Setting<readonly string[]> | undefined;
}

/** A request in no vendor's dialect. */
export interface ModelRequest {
  readonly stream: boolean;
  /** A stream ends with its usage. */
  readonly wantsUsage: boolean;
  readonly system: readonly TextPart[];
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  readonly toolChoice?: ToolChoice | undefined;
  /** Whether the model may call several tools at once. */
  readonly parallelCalls?: Setting<boolean> | undefined;
  readonly maxTokens?: Setting<number> | undefined;
  /** Where the caller's dialect has the limit of output tokens; undefined if there is no output. */
  readonly limitPath: string | undefined;
  readonly sampling: Sampling;
  readonly reasoning?: Reasoning | undefined;
  readonly output?: StructuredOutput | undefined;
  readonly verbosity?: Setting<string> | undefined;
  readonly user?: Setting<string> | undefined;
  readonly cacheKey?: Setting<string> | undefined;
}
