import type { GoogleToken } from '@weighbridge/identities';
import type { ResponseHandler } from './http1/httpCall.ts';
import type { UpstreamRequest } from './upstreamRequest.ts';
import { tokenedPrediction } from './vertex/tokenedPrediction.ts';

/** A request that says who sends it. */
export interface Identified {
  /** Names the token that it goes out with. */
  readonly token: string;
  readonly identified: UpstreamRequest;
  /** Turns what reads an answer into what reads the upstream's. */
  readonly answerTo?: AnswerTo;
}

type AnswerTo = (handler: ResponseHandler) => ResponseHandler;

/** With an access token. */
export function bearing(request: UpstreamRequest, token: string): Identified {
  request.headers.push('authorization', `Bearer ${token}`);
  return { token, identified: request };
}

/** To Vertex AI, with Google's. */
export function predicting(request: UpstreamRequest, held: GoogleToken, location: string): Identified {
  const { identified, answerTo } = tokenedPrediction(request, held, location);
  return { token: held.token, identified, answerTo };
}
