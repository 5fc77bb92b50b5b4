import { AppError } from '@weighbridge/errors';
import type { RequestBody } from '../../formats/requestBody.ts';
import { betasAt, messagesBody } from '../messagesBody.ts';
import { modelSegment } from '../modelSegment.ts';
import { BEDROCK_BETAS } from './betas.ts';

/** A request of Anthropic's Messages API as Bedrock's InvokeModel takes it. */
export interface Invocation {
  readonly path: string;
  readonly headers: string[];
  readonly body: RequestBody;
}

const BEDROCK_VERSION = 'bedrock-2023-05-31';
/** In the path or the header there, and refused in the body. */
const ELSEWHERE: ReadonlySet<string> = new Set(['model', 'stream', 'anthropic_version', 'anthropic_beta']);
/** Headers that mean nothing there, or something else. The answer must not be coded: its framing is read here. */
const DROPPED = new Set(['accept', 'accept-encoding', 'anthropic-beta', 'anthropic-version']);

/** Nearly byte for byte: the model goes to the path, the version and the betas into the body. */
export function invocationOf(
  path: string,
  headers: readonly string[],
  body: RequestBody | undefined,
): Invocation {
  if (body === undefined || !/^\/messages(\?|$)/.test(path)) throw notServed(path);
  const kept: string[] = ['accept-encoding', 'identity'];
  const betas: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const [name = '', value = ''] = headers.slice(at, at + 2);
    if (name === 'anthropic-beta') betas.push(value);
    if (!DROPPED.has(name)) kept.push(name, value);
  }
  const named = betasAt(BEDROCK_BETAS, betas);
  const beta = named.length > 0 ? `"anthropic_beta":${JSON.stringify(named)},` : '';
  const version = `"anthropic_version":"${BEDROCK_VERSION}",`;
  const { model, isStreamed, body: sent } = messagesBody(body, ELSEWHERE, version + beta);
  const action = isStreamed ? 'invoke-with-response-stream' : 'invoke';
  return { path: `/model/${modelSegment(model)}/${action}`, headers: kept, body: sent };
}

function notServed(path: string): AppError {
  const message = `Claude on Bedrock has no ${path.split('?')[0]}: use /v1/messages, or a model of another provider.`;
  return new AppError('invalid_request', 'route_not_supported', message);
}
