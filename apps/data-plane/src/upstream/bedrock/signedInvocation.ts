import { type AwsCredentials, signAws } from '@weighbridge/identities';
import { CONVERSE } from '../../formats/operation.ts';
import type { ConnectorIdentity } from '../connectorIdentities.ts';
import type { ResponseHandler } from '../http1/httpCall.ts';
import type { UpstreamRequest } from '../upstreamRequest.ts';
import { ANTHROPIC_SHAPE, CONVERSE_SHAPE } from './answerShapes.ts';
import { converseCall } from './converseCall.ts';
import { invocationOf } from './invocation.ts';
import { InvocationAnswer } from './invocationAnswer.ts';

interface Signer {
  readonly identity: Extract<ConnectorIdentity, { kind: 'aws' }>;
  readonly credentials: AwsCredentials;
}

/** A request of the Messages API, or to Converse, as one of Bedrock's runtime, signed, and what reads its answer. */
export async function signedInvocation(
  request: UpstreamRequest,
  { host, path: basePath }: { readonly host: string; readonly path: string },
  { identity, credentials }: Signer,
) {
  const isConverse = request.path === CONVERSE.path && request.body !== undefined;
  const { path, headers, body } =
    isConverse && request.body
      ? converseCall(request.headers, request.body)
      : invocationOf(request.path, request.headers, request.body);
  const { region, clockMs } = identity;
  const toSign = {
    method: request.method,
    host,
    path: basePath + path,
    contentType: headers[headers.indexOf('content-type') + 1],
    body: body.pieces,
  };
  const signed = await signAws(toSign, credentials, { service: 'bedrock', region, now: new Date(clockMs()) });
  for (const [name, value] of Object.entries(signed)) headers.push(name, value);
  const { EventStreamCodec } = await import('@smithy/eventstream-codec');
  const codec = new EventStreamCodec(toUtf8, fromUtf8);
  return {
    identified: { path, method: request.method, headers, body },
    answerTo: (handler: ResponseHandler) =>
      new InvocationAnswer(handler, codec, isConverse ? CONVERSE_SHAPE : ANTHROPIC_SHAPE),
  };
}

function toUtf8(input: Uint8Array | string): string {
  return typeof input === 'string' ? input : Buffer.from(input).toString('utf8');
}

function fromUtf8(input: string): Uint8Array {
  return Buffer.from(input, 'utf8');
}
