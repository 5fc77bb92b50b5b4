import type { MediaKind, MediaSource } from '../ir/request.ts';

const BASE64_URL = /^data:([^;,]{1,100});base64,/;

/** The bytes in a `data:` URL (RFC 2397) in base64; undefined if it is none. */
export function readDataUrl(url: string): (MediaSource & { from: 'base64' }) | undefined {
  const head = BASE64_URL.exec(url);
  return head?.[1] ? { from: 'base64', type: head[1], data: url.slice(head[0].length) } : undefined;
}

export function writeDataUrl(source: MediaSource): string {
  if (source.from === 'base64') return `data:${source.type};base64,${source.data}`;
  return source.from === 'url' ? source.url : '';
}

/** What a MIME type is to a model. */
export function mediaOfType(type: string): MediaKind {
  const [kind] = type.split('/', 1);
  return kind === 'image' || kind === 'audio' || kind === 'video' ? kind : 'document';
}
