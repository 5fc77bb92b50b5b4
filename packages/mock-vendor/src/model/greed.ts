import { isRecord } from '../shared/parameters.ts';
import type { VendorTraits } from '../shared/traits.ts';
import type { Asked, Conversation } from './conversation.ts';

/** What a vendor may add to the input for a part that is not text, and for an object that it stores. */
const MEDIA_TOKENS = 1_600;
const STORED_TOKENS = 5_000;
/** Per iteration, or per use of another model. */
const EXTRA_TOKENS = 500;
const MEDIA = /^(image|image_url|input_image|input_audio|audio|file|input_file|document|video_url)$/;
/** Gemini's parts say by a member what they are. */
const MEDIA_MEMBER = /^(inlinedata|filedata)$/;
const STORED =
  /^(previous_response_id|conversation|prompt|container|file_id|vector_store_ids|item_reference|thread|cachedcontent)$/;
const COMPACTION = /^compact/;

/** What a greedy vendor adds to a request, whatever its own count says. */
export interface Greed {
  readonly inputTokens: number;
  readonly compactionTokens: number;
  readonly advisorTokens: number;
  readonly imageToolTokens: number;
  readonly reasons: boolean;
}

const NO_GREED: Greed = {
  inputTokens: 0,
  compactionTokens: 0,
  advisorTokens: 0,
  imageToolTokens: 0,
  reasons: false,
};

/** Reads the body for everything that a vendor may bill by: media, stored objects, passes over the conversation. */
export function greedOf({ asked, body }: Conversation, { greedy, prices }: VendorTraits): Greed {
  if (!greedy) return NO_GREED;
  const seen = { media: 0, stored: 0, compacts: false, reasons: false };
  walk(body, (name, value) => {
    if (name === 'type' && typeof value === 'string') {
      if (MEDIA.test(value)) seen.media++;
      if (value === 'item_reference') seen.stored++;
      if (COMPACTION.test(value)) seen.compacts = true;
    }
    if (value === null || value === undefined || value === '') return;
    if (MEDIA_MEMBER.test(name)) seen.media++;
    if (STORED.test(name)) seen.stored++;
    if (/^(thinking|reasoning|reasoning_effort|thinkingconfig)$/.test(name)) seen.reasons = true;
    if (name === 'compaction') seen.compacts = true;
  });
  return {
    inputTokens: seen.media * MEDIA_TOKENS + seen.stored * STORED_TOKENS,
    compactionTokens: seen.compacts && asked.reportsIterations ? EXTRA_TOKENS : 0,
    advisorTokens: uses(asked, 'advisor', prices),
    imageToolTokens: uses(asked, 'image_generation', prices),
    reasons: seen.reasons,
  };
}

function uses({ serverTools }: Asked, tool: string, prices: VendorTraits['prices']): number {
  const model = serverTools.find(({ name }) => name === tool)?.model;
  return model !== undefined && prices[model] !== undefined ? EXTRA_TOKENS : 0;
}

function walk(value: unknown, visit: (name: string, value: unknown) => void): void {
  // Without recursion: a body may be nested deeply.
  const open: unknown[] = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (Array.isArray(next)) for (const item of next) open.push(item ?? 0);
    else if (isRecord(next)) {
      for (const [name, item] of Object.entries(next)) {
        visit(name.toLowerCase(), item);
        open.push(item ?? 0);
      }
    }
  }
}
