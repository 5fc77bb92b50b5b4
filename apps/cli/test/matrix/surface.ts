/** What a cell asks an SDK for. */
export interface Asking {
  readonly model: string;
  readonly turns: readonly unknown[];
  readonly stream: boolean;
  /** The tool `weigh`. */
  readonly tools?: boolean;
  /** JSON of this schema. */
  readonly format?: object;
  readonly thinks?: boolean;
  /** Called at each piece of a stream's text. */
  readonly onPiece?: () => void;
  readonly signal?: AbortSignal;
}

export interface Call {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

/** A source that an answer names. */
interface Cited {
  readonly url: unknown;
  readonly title: unknown;
}

/** What an SDK makes of the answer. */
export interface Answered {
  readonly text: string;
  readonly calls: readonly Call[];
  readonly cited: readonly Cited[];
  /** As the conversation goes on with them. */
  readonly turns: readonly unknown[];
  readonly usage: { readonly input: number; readonly output: number };
}

/** An SDK, with the operation that it is used for. */
export interface Surface {
  readonly name: string;
  readonly sdk: string;
  say(text: string, image?: string): unknown;
  results(calls: readonly Call[], text: string): readonly unknown[];
  ask(asking: Asking): Promise<Answered>;
  /** The HTTP status in an error of the SDK. */
  statusOf(error: unknown): unknown;
}

export interface Service {
  readonly url: string;
  readonly key: string;
}

export const WEIGH = {
  name: 'weigh',
  description: 'Weighs a truck.',
  parameters: {
    type: 'object' as const,
    properties: { truck: { type: 'integer' } },
    required: ['truck'],
    additionalProperties: false,
  },
};
export const MAX_TOKENS = 8_000;
/** A PNG of one pixel. */
export const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
