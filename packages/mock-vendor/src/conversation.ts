/** What a dialect's request asks of the model, without the dialect. */
export interface Conversation {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoice;
  /** How many answers (`n`). */
  readonly choices: number;
  /** The caller's limit on one answer, reasoning included. */
  readonly maxOutputTokens: number | undefined;
}

export interface Message {
  readonly role: string;
  /** The text parts, joined by a newline. */
  readonly text: string;
}

export interface Tool {
  readonly name: string;
  /** JSON Schema of the arguments. */
  readonly parameters: unknown;
}

export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string };
