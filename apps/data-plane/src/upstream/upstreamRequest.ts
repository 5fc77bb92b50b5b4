import type { RequestBody } from '../formats/requestBody.ts';

/** What is sent to an upstream. */
export interface UpstreamRequest {
  /** Appended to the connector's base URL: `/chat/completions`, with the query string. */
  readonly path: string;
  /** The path is below the base URL of the vendor's own API, where its compatible one is `/openai` below that. */
  readonly isNative?: boolean;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Names and values, alternating. */
  readonly headers: string[];
  readonly body: RequestBody | undefined;
}
