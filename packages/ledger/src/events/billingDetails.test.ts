import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { TokenUsageSchema, UsageDetailsSchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { detailsColumn, detailsOf } from './billingDetails.ts';

const columnOf = (
  usage: MessageInitShape<typeof TokenUsageSchema>,
  details?: MessageInitShape<typeof UsageDetailsSchema>,
) => detailsColumn(create(TokenUsageSchema, usage), details && create(UsageDetailsSchema, details));
const NONE = {
  inputAudioTokens: 0,
  inputImageTokens: 0,
  cacheReadAudioTokens: 0,
  outputAudioTokens: 0,
  outputImageTokens: 0,
  serviceTier: '',
  speed: '',
  geography: '',
  toolUses: {},
  unpriced: [],
  pricedModel: '',
  dropped: [],
  skipped: [],
};

describe('the details of a row', () => {
  it('are null for text at the list price', () => {
    expect(columnOf({ input: 5, output: 3, cacheRead: 1 })).toBeNull();
    expect(columnOf({ input: 5 }, {})).toBeNull();
    expect(detailsOf({ details: null })).toEqual(NONE);
  });

  it('are read as they were written', () => {
    const usage = { inputAudio: 1, inputImage: 2, cacheReadAudio: 3, outputAudio: 4, outputImage: 5 };
    const details = {
      serviceTier: 'priority',
      speed: 'fast',
      geography: 'us',
      toolUses: { web_search: 2, constructor: 1 },
      unpriced: ['tool:web_search'],
      pricedModel: 'a/b',
      dropped: ['metadata.user_id changed'],
      skipped: ['mock/large large models'],
    };
    expect(detailsOf({ details: JSON.parse(columnOf(usage, details) ?? '') })).toEqual({
      inputAudioTokens: 1,
      inputImageTokens: 2,
      cacheReadAudioTokens: 3,
      outputAudioTokens: 4,
      outputImageTokens: 5,
      ...details,
    });
    expect(columnOf({ outputAudio: 4 }, { speed: 'fast' })).toBe('{"output_audio_tokens":4,"speed":"fast"}');
  });

  it('hold whatever a vendor names its tiers and tools, within what a proxy writes', () => {
    expect(columnOf({}, { serviceTier: 'a\0b', toolUses: { '\0': 1 } })).toBe(
      '{"service_tier":"a?b","tool_uses":{"?":1}}',
    );
    const many = Object.fromEntries(Array.from({ length: 65 }, (_, n) => [`t${n}`, 1]));
    expect(() => columnOf({}, { toolUses: many })).toThrow('the number of tools is above 64');
    expect(() => columnOf({}, { unpriced: Object.keys(many) })).toThrow('unpriced items is above 64');
    expect(() => columnOf({}, { pricedModel: 'x'.repeat(1_025) })).toThrow('priced_model is above 1024');
  });
});
