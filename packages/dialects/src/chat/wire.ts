import type {
  ChatCompletionAssistantMessageParam,
  ChatCompletionContentPart,
  ChatCompletionContentPartRefusal,
  ChatCompletionCreateParamsBase,
  ChatCompletionMessageParam,
} from 'openai/resources/chat/completions/completions';

export type ChatBody = ChatCompletionCreateParamsBase;

/** Members of an assistant's message that vendors other than OpenAI have. */
export interface ReasoningMembers {
  /** DeepSeek's and many others'. */
  readonly reasoning_content?: string | null;
  /** Groq's and OpenRouter's. */
  readonly reasoning?: string | null;
}

/** Where Google's own chat completions have a thought signature (https://ai.google.dev/gemini-api/docs/thought-signatures). */
interface ExtraContent {
  readonly extra_content?: { readonly google?: { readonly thought_signature?: string } };
}

export type MessageWire =
  | ChatCompletionMessageParam
  | (ChatCompletionAssistantMessageParam & ReasoningMembers);
export type PartWire =
  | ChatCompletionContentPart
  | ChatCompletionContentPartRefusal
  | { readonly cache_control?: unknown };

export interface CallWire extends ExtraContent {
  readonly id?: string;
  readonly type?: string;
  readonly index?: number;
  readonly function?: { readonly name?: string; readonly arguments?: string };
  readonly custom?: { readonly name?: string; readonly input?: string };
}
