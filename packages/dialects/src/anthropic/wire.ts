import type {
  BetaCacheControlEphemeral,
  BetaContentBlockParam,
  BetaTool,
  BetaToolUnion,
  MessageCreateParamsBase,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import type { CacheMark } from '../ir/request.ts';
import type { Fields } from '../loss/fields.ts';

/** Members that callers still send and that the newest types lack. */
interface Older {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
}

export type MessagesBody = MessageCreateParamsBase & Older;

/** The members of any content block, and those that types of blocks share in part. */
export type BlockWire =
  | BetaContentBlockParam
  | { readonly cache_control?: unknown; readonly tool_name?: string };

export type ToolWire = BetaTool | (BetaToolUnion & { readonly type: string });

export interface SourceWire {
  readonly type: string;
  readonly media_type?: string;
  readonly data?: string;
  readonly url?: string;
  readonly file_id?: string;
  readonly content?: unknown;
}

/** A `cache_control` that is taken. */
export function readCacheMark<Wire extends { readonly cache_control?: unknown }>(
  fields: Fields<Wire>,
): CacheMark | undefined {
  const mark = fields.object<{ type?: string; ttl?: string; scope?: unknown }>('cache_control' as never);
  if (!mark) return undefined;
  mark.need('type', mark.word('type', ['ephemeral']));
  mark.drop('scope', 'the vendor decides who shares its cache');
  const ttl = mark.word('ttl', ['5m', '1h']);
  mark.end();
  return { ttl };
}

export function writeCacheMark(mark: CacheMark | undefined): BetaCacheControlEphemeral | undefined {
  return mark && (mark.ttl ? { type: 'ephemeral', ttl: mark.ttl } : { type: 'ephemeral' });
}
