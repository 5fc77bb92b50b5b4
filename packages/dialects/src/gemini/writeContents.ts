import {
  type CallPart,
  type MediaPart,
  type Message,
  markPath,
  type Part,
  type ResultPart,
} from '../ir/request.ts';
import { present, raw } from '../json/writeJson.ts';
import { toolName } from '../wire/ids.ts';
import { callArguments, ownOpaque, takesMedia, type WriteContext } from '../writeContext.ts';
import { type Content, type PartWire, SIGNED_TEXT } from './wire.ts';

/** What Google lets stand for a signature that another model's call can't have (https://ai.google.dev/gemini-api/docs/thought-signatures). */
const NO_SIGNATURE = 'skip_thought_signature_validator';

/** The contents of a conversation. Calls need no ids: their results follow in the same order. */
export function writeContents(messages: readonly Message[], context: WriteContext): Content[] {
  const names = new Map<string, string>();
  const contents: { role: 'user' | 'model'; parts: PartWire[] }[] = [];
  for (const { role, parts } of messages) {
    const written =
      role === 'assistant' ? writeModel(parts, names, context) : writeUser(parts, names, context);
    if (written.length === 0) continue;
    const wireRole = role === 'assistant' ? 'model' : 'user';
    const last = contents.at(-1);
    if (last?.role === wireRole) for (const part of written) last.parts.push(part);
    else contents.push({ role: wireRole, parts: written });
  }
  return contents;
}

function noteMark(part: Part, { losses }: WriteContext): void {
  if (part.cache) losses.add(markPath(part), 'dropped', 'prefixes are cached without marks there');
}

/** A signature goes with the text that it signed, or the part that follows the reasoning; with an empty text, if nothing does. */
function writeModel(parts: readonly Part[], names: Map<string, string>, context: WriteContext): PartWire[] {
  const written: PartWire[] = [];
  let signature: string | undefined;
  let hasCall = false;
  for (const part of parts) {
    noteMark(part, context);
    if (part.kind === 'reasoning') {
      const opaque = ownOpaque(part, context);
      const before = written.at(-1);
      if (opaque?.id === SIGNED_TEXT && before?.text !== undefined) before.thoughtSignature ??= opaque.data;
      else if (opaque) signature = opaque.data;
      continue;
    }
    const isFirstCall = part.kind === 'call' && !hasCall;
    if (part.kind === 'call') hasCall = true;
    const wire = writeSaid(part, names, context);
    if (!wire) continue;
    const stands = isFirstCall && context.quirks.needsThoughtSignatures ? NO_SIGNATURE : undefined;
    const thoughtSignature = signature ?? stands;
    written.push(thoughtSignature === undefined ? wire : { ...wire, thoughtSignature });
    signature = undefined;
  }
  if (signature !== undefined) written.push({ text: '', thoughtSignature: signature });
  return written;
}

function writeSaid(part: Part, names: Map<string, string>, context: WriteContext): PartWire | undefined {
  if (part.kind === 'call') return writeCall(part, names, context);
  return writeContent(part, context);
}

function writeCall(part: CallPart, names: Map<string, string>, context: WriteContext): PartWire {
  const name = toolName(part.name);
  names.set(part.id, name);
  return { functionCall: { name, args: raw(callArguments(part, context)) } };
}

function writeUser(
  parts: readonly Part[],
  names: ReadonlyMap<string, string>,
  context: WriteContext,
): PartWire[] {
  return parts.flatMap((part) => {
    noteMark(part, context);
    if (part.kind === 'result') return writeResult(part, names, context);
    return writeContent(part, context) ?? [];
  });
}

function writeContent(part: Part, context: WriteContext): PartWire | undefined {
  switch (part.kind) {
    case 'text':
    case 'refusal':
      return part.text === '' ? undefined : { text: part.text };
    case 'reference':
      return { text: `Tool loaded: ${part.name}` };
    case 'media':
      return takesMedia(part, context) ? writeMedia(part, context) : undefined;
    default:
      context.losses.add(part.path, 'refused', `${part.kind} has no place there`);
      return undefined;
  }
}

/** Media of a result follow it, since not every model takes them in it. */
function writeResult(
  part: ResultPart,
  names: ReadonlyMap<string, string>,
  context: WriteContext,
): PartWire[] {
  const texts: string[] = [];
  const media: PartWire[] = [];
  for (const inner of part.parts) {
    noteMark(inner, context);
    if (inner.kind === 'text') texts.push(inner.text);
    else {
      const wire = writeContent(inner, context);
      if (!wire) continue;
      if (inner.kind === 'media') context.losses.add(inner.path, 'changed', 'it is sent after the result');
      media.push(wire);
    }
  }
  const text = texts.join('\n');
  const response = part.failed ? { error: text } : { output: text };
  return [{ functionResponse: { name: names.get(part.id) ?? '', response } }, ...media];
}

/** What an address without a type has most likely. */
const TYPES: Readonly<Record<MediaPart['media'], string>> = {
  image: 'image/jpeg',
  document: 'application/pdf',
  audio: 'audio/mpeg',
  video: 'video/mp4',
};

function writeMedia({ source, media, name, detail, path }: MediaPart, { losses }: WriteContext): PartWire {
  if (detail !== undefined) losses.add(`${path}.detail`, 'dropped', 'it has no counterpart');
  if (name !== undefined) losses.add(`${path}.title`, 'dropped', 'it has no name there');
  if (source.from === 'base64') return { inlineData: { mimeType: source.type, data: source.data } };
  if (source.from === 'file') return { fileData: present({ fileUri: source.id, mimeType: TYPES[media] }) };
  return { fileData: { fileUri: source.url, mimeType: source.type ?? TYPES[media] } };
}
