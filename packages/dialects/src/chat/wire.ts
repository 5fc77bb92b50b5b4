import type {
  ChatCompletionAssistantMessageParam,
  ChatCompletionContentPart,
  ChatCompletionContentPartRefusal,
  ChatCompletionCreateParamsBase,
  ChatCompletionCustomTool,
  ChatCompletionFunctionTool,
  ChatCompletionMessageParam,
} from 'openai/resources/chat/completions/completions';

/** Settings that vendors other than OpenAI have. */
interface OtherSettings {
  readonly top_k?: number;
  /** OpenRouter's. */
  readonly reasoning?: unknown;
  /** That of Anthropic's compatible API, and of others. */
  readonly thinking?: unknown;
  /** Where Google's compatible API has its own settings. */
  readonly extra_body?: unknown;
}

export type ChatBody = ChatCompletionCreateParamsBase & OtherSettings;

/** Members of an assistant's message that vendors other than OpenAI have. */
export interface ReasoningMembers {
  /** DeepSeek's and many others'. */
  readonly reasoning_content?: string | null;
  /** Groq's and OpenRouter's. */
  readonly reasoning?: string | null;
  /** OpenRouter's: a list of `ReasoningDetail`. */
  readonly reasoning_details?: unknown;
}

/**
 * Reasoning, block by block, with what has to come back with it
 * (https://openrouter.ai/docs/use-cases/reasoning-tokens#preserving-reasoning).
 */
export interface ReasoningDetail {
  readonly type: string;
  /** Here: of the call that follows the reasoning. */
  readonly id?: string | null;
  readonly index?: number;
  readonly format?: string | null;
  /** Of `reasoning.text`. */
  readonly text?: string | null;
  readonly signature?: string | null;
  /** Of `reasoning.summary`. */
  readonly summary?: string;
  /** Of `reasoning.encrypted`. */
  readonly data?: string;
}

/** Where Google's own chat completions have a thought signature (https://ai.google.dev/gemini-api/docs/thought-signatures). */
interface ExtraContent {
  readonly extra_content?: { readonly google?: { readonly thought_signature?: string } };
}

/** A mark of Anthropic's, which callers of its models by chat completions send. */
export interface Marked {
  readonly cache_control?: unknown;
}

export type MessageWire = (
  | ChatCompletionMessageParam
  | (ChatCompletionAssistantMessageParam & ReasoningMembers)
) &
  Marked;
export type PartWire = ChatCompletionContentPart | ChatCompletionContentPartRefusal | Marked;
export type ToolWire = (ChatCompletionFunctionTool | ChatCompletionCustomTool) & Marked;

export interface CallWire extends ExtraContent {
  readonly id?: string;
  readonly type?: string;
  readonly index?: number;
  readonly function?: { readonly name?: string; readonly arguments?: string };
  readonly custom?: { readonly name?: string; readonly input?: string };
}
