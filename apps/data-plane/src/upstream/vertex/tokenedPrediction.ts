import type { GoogleToken } from '@weighbridge/identities';
import type { ResponseHandler } from '../http1/httpCall.ts';
import { RewrittenError } from '../rewrittenError.ts';
import type { UpstreamRequest } from '../upstreamRequest.ts';
import { predictionOf } from './prediction.ts';
import { vertexError } from './vertexError.ts';

/** A request to Vertex AI with its token, and what reads its answer. */
export function tokenedPrediction(
  request: UpstreamRequest,
  { token, project }: GoogleToken,
  location: string,
) {
  const { api, identified } = predictionOf(request, { project, location });
  identified.headers.push('authorization', `Bearer ${token}`);
  return {
    identified,
    answerTo: (handler: ResponseHandler) => new RewrittenError(handler, (text) => vertexError(api, text)),
  };
}
