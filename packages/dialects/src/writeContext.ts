import type { TargetFormat } from './format.ts';
import type { CallPart, MediaPart, ModelRequest, Opaque, ReasoningPart, Setting } from './ir/request.ts';
import { argumentsObject } from './json/toolArguments.ts';
import type { Losses } from './loss/losses.ts';
import type { Quirks } from './quirks/quirks.ts';
import type { ToolChanges } from './tools/answerTools.ts';
import { freeformArguments } from './tools/freeform.ts';
import { callId } from './wire/ids.ts';
import { isIssuedBy, type SealScope } from './wire/seal.ts';

/** What an attempt is sent to. */
export interface Target {
  readonly format: TargetFormat;
  /** Who issues its opaque values, such as `anthropic`, whoever serves the model. */
  readonly owner: string;
  /** Its account: opaque values return to it only. */
  readonly account: string;
  /** The vendor's name of the model. */
  readonly model: string;
  readonly quirks: Quirks;
}

/** What the writers of a request share. */
export interface WriteContext extends Target {
  readonly scope: SealScope;
  readonly losses: Losses;
}

/** A request in a vendor's format, to be written as JSON, and what its answer differs by. */
export interface WrittenRequest {
  readonly body: object;
  readonly changes: ToolChanges;
}

export type RequestWriter = (request: ModelRequest, context: WriteContext) => WrittenRequest;

/** The opaque value of a part, if the target issued it; else the loss of the part is named. */
export function ownOpaque(part: ReasoningPart, context: WriteContext): Opaque | undefined {
  const { opaque, path } = part;
  const { owner, account, scope, losses } = context;
  if (opaque?.owner === owner && isIssuedBy(scope, account, opaque)) return opaque;
  const whose =
    opaque && opaque.owner !== owner ? `of ${opaque.owner}` : 'of another account, or without a signature';
  losses.add(path, 'dropped', `reasoning ${opaque ? whose : 'without a signature'} is not sent`);
  return undefined;
}

/** Names what becomes of the caller's user: the vendor gets a hash of it, or nothing. */
export function nameUser(user: Setting<string> | undefined, { quirks, losses }: WriteContext): void {
  if (!user) return;
  if (quirks.user) losses.add(user.path, 'changed', 'the vendor gets a hash of it');
  else losses.add(user.path, 'dropped', 'the vendor takes no user');
}

/** Whether the target takes the media; else its refusal is named. */
export function takesMedia(part: MediaPart, { format, quirks, owner, losses }: WriteContext): boolean {
  const { source, media, path } = part;
  if (!quirks.inputs.includes(media)) losses.add(path, 'refused', `the model does not take ${media} input`);
  else if (source.from === 'file' && source.owner !== owner) {
    losses.add(path, 'refused', `the file is at ${source.owner}; send its bytes instead`);
  } else if (source.from === 'url' && !quirks.mediaUrls && !source.url.startsWith('data:')) {
    losses.add(path, 'refused', 'the model does not fetch addresses; send the bytes instead');
  } else {
    const type = source.from === 'url' ? source.type : undefined;
    if (type && format !== 'gemini')
      losses.add(`${path}.mimeType`, 'dropped', 'the vendor finds out the type');
    return true;
  }
  return false;
}

/** The arguments of a call in the history, as the text of a JSON object. */
export function callArguments({ form, input, path }: CallPart, { losses }: WriteContext) {
  if (form === 'text') return freeformArguments(input);
  const { json, isWrapped } = argumentsObject(input);
  if (isWrapped) losses.add(path, 'changed', 'the arguments are no JSON object, and are sent inside one');
  return json;
}

/** The id of a call as the target takes it. */
export function targetCallId(id: string, { quirks }: WriteContext): string {
  return callId(id, quirks.callIdLength);
}
