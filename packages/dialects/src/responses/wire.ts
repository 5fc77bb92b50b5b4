import type { ResponseCreateParamsBase } from 'openai/resources/responses/responses';

/** Members that agents send and the types lack. */
interface Newer {
  readonly client_metadata?: unknown;
  readonly max_tool_calls?: number;
  readonly top_logprobs?: number;
}

export type ResponsesBody = ResponseCreateParamsBase & Newer;
