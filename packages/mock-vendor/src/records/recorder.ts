import type { IncomingHttpHeaders } from 'node:http';
import { dropOldest } from '../shared/bounded.ts';

/** A request as it arrived. */
export interface RecordedRequest {
  /** The `x-request-id` of its response, and the id of its entry in the bill. */
  readonly requestId: string;
  readonly method: string;
  /** Path and query, undecoded. */
  readonly path: string;
  /** Names and values in turn, in their original order and case. */
  readonly rawHeaders: readonly string[];
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Recorder {
  readonly requests: readonly RecordedRequest[];
  record(request: RecordedRequest): void;
  clear(): void;
}

/** Retains the newest `keep` requests. */
export function createRecorder(keep: number): Recorder {
  const requests: RecordedRequest[] = [];
  return {
    requests,
    record(request) {
      requests.push(request);
      dropOldest(requests, keep);
    },
    clear() {
      requests.length = 0;
    },
  };
}
