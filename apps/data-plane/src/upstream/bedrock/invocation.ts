import { CLOSE_OBJECT, COMMA, JsonCursor } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { memberCuts } from '../../formats/memberCuts.ts';
import type { Edit, RequestBody } from '../../formats/requestBody.ts';
import { bedrockBetas } from './betas.ts';

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
  const bytes = body.toBuffer();
  const { model, isStreamed } = membersOf(bytes);
  const kept: string[] = ['accept-encoding', 'identity'];
  const betas: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const [name = '', value = ''] = headers.slice(at, at + 2);
    if (name === 'anthropic-beta') betas.push(value);
    if (!DROPPED.has(name)) kept.push(name, value);
  }
  const edits: Edit[] = memberCuts(bytes, ELSEWHERE).map((span) => ({ span, text: '' }));
  const start = bytes.indexOf('{') + 1;
  const named = bedrockBetas(betas);
  const beta = named.length > 0 ? `"anthropic_beta":${JSON.stringify(named)},` : '';
  edits.push({ span: { start, end: start }, text: `"anthropic_version":"${BEDROCK_VERSION}",${beta}` });
  const action = isStreamed ? 'invoke-with-response-stream' : 'invoke';
  return {
    path: `/model/${encodeURIComponent(model)}/${action}`,
    headers: kept,
    body: body.withEdits(edits),
  };
}

/** What the body says of the members that go elsewhere. It was checked before: it is an object, and names each once. */
function membersOf(bytes: Buffer): { model: string; isStreamed: boolean } {
  const cursor = new JsonCursor(bytes);
  let model = '';
  let isStreamed = false;
  cursor.space();
  cursor.at++;
  cursor.space();
  while (cursor.peek() !== CLOSE_OBJECT) {
    const name = cursor.key();
    const start = cursor.at;
    cursor.skipValue();
    if (name === 'model') model = String(JSON.parse(bytes.toString('utf8', start, cursor.at)));
    if (name === 'stream') isStreamed = bytes.toString('utf8', start, cursor.at).trim() === 'true';
    cursor.space();
    if (cursor.peek() !== COMMA) break;
    cursor.at++;
    cursor.space();
  }
  return { model, isStreamed };
}

function notServed(path: string): AppError {
  const message = `Claude on Bedrock has no ${path.split('?')[0]}: use /v1/messages, or a model of another provider.`;
  return new AppError('invalid_request', 'route_not_supported', message);
}
