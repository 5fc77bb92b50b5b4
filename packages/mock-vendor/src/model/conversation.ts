/** A request to the model, independent of a dialect. */
export interface Conversation {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoice;
  /** The number of choices (`n`). */
  readonly choices: number;
  /** The request's limit per choice, including reasoning. */
  readonly maxOutputTokens: number | undefined;
  readonly asked: Asked;
  /** The form that the text must have; undefined if it is free. */
  readonly answerFormat?: AnswerFormat | undefined;
  /** The whole request. */
  readonly body?: unknown;
}

/** What a request asks for beyond text from its model. */
export interface Asked {
  /** In the vendor's words; empty if the request says nothing. */
  readonly serviceTier: string;
  readonly speed: string;
  readonly geography: string;
  /** Other models that may answer. */
  readonly fallbacks: readonly Fallback[];
  /** Tools that run at the vendor. */
  readonly serverTools: readonly ServerTool[];
  /** The dialect reports iterations beside the usage of the last one: only then does this vendor add some. */
  readonly reportsIterations: boolean;
  /** The most calls of server-side tools together. */
  readonly maxToolCalls: number | undefined;
}

export interface Fallback {
  readonly model: string;
  /** Instead of the request's own. */
  readonly maxOutputTokens: number | undefined;
  readonly speed: string | undefined;
}

export interface ServerTool {
  /** By which its uses are reported, such as `web_search`. */
  readonly name: string;
  /** By which they are billed, if that depends on the request; null if they are free. Default: `name`. */
  readonly billedAs?: string | null;
  /** All uses of a response are billed as one. */
  readonly isBilledOnce?: boolean;
  /** Where it runs, if the request says so. */
  readonly container?: string;
  readonly maxUses: number | undefined;
  /** The model that it uses. */
  readonly model: string | undefined;
}

export const NOTHING_ASKED: Asked = {
  serviceTier: '',
  speed: '',
  geography: '',
  fallbacks: [],
  serverTools: [],
  reportsIterations: false,
  maxToolCalls: undefined,
};

/** JSON that fits the schema; of an enum, Gemini also writes the bare value. */
export interface AnswerFormat {
  readonly schema: unknown;
  readonly isBare?: boolean;
}

/** JSON without a schema is an object. */
export const ANY_OBJECT: AnswerFormat = {
  schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
};

export interface Message {
  readonly role: string;
  /** The text parts, joined by a newline. */
  readonly text: string;
}

export interface Tool {
  readonly name: string;
  /** JSON Schema of the arguments. */
  readonly parameters: unknown;
  /** It takes a text instead of arguments, and may be in a namespace: only in responses. */
  readonly custom?: { readonly namespace: string | undefined };
}

export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string };
