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
