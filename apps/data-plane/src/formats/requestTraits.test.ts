import { expect, it } from 'vitest';
import { readGenerationRequest } from './generationRequest.ts';
import { CHAT_COMPLETIONS, MESSAGES, type Operation, RESPONSES } from './operation.ts';
import { RequestBody } from './requestBody.ts';
import { asksToCacheForAnHour, mayHaveMedia, mayReason } from './requestTraits.ts';

const read = (operation: Operation, text: string) =>
  readGenerationRequest(operation, new RequestBody([Buffer.from(`{"model":"a/b"${text}}`)]));

it('says whether the model may reason', () => {
  const plain = { capabilities: ['tools'] };
  expect(mayReason(read(CHAT_COMPLETIONS, ''), plain)).toBe(false);
  expect(mayReason(read(CHAT_COMPLETIONS, ''), { capabilities: ['reasoning'] })).toBe(true);
  expect(mayReason(read(CHAT_COMPLETIONS, ',"reasoning_effort":"low"'), plain)).toBe(true);
  expect(mayReason(read(RESPONSES, ',"reasoning":{}'), plain)).toBe(true);
  expect(mayReason(read(MESSAGES, ',"thinking":{"type":"adaptive"}'), plain)).toBe(true);
});

it('says whether the request may hold media', () => {
  const part = (type: string) => `,"messages":[{"content":[{"type":"${type}"}]}]`;
  expect(mayHaveMedia(read(CHAT_COMPLETIONS, part('text')))).toBe(false);
  for (const type of ['image_url', 'input_audio', 'file', 'image', 'document', 'input_image', 'input_file']) {
    expect(mayHaveMedia(read(CHAT_COMPLETIONS, part(type)))).toBe(true);
  }
  expect(mayHaveMedia(read(CHAT_COMPLETIONS, ',"modalities":["text","audio"]'))).toBe(true);
});

it('says whether a part is to be cached for an hour', () => {
  const cached = (ttl: string) => `,"system":[{"type":"text","cache_control":{"type":"ephemeral"${ttl}}}]`;
  expect(asksToCacheForAnHour(read(MESSAGES, cached(',"ttl":"1h"')))).toBe(true);
  expect(asksToCacheForAnHour(read(MESSAGES, `,"a":"1h"${cached(', "ttl" : "1h"')}`))).toBe(true);
  for (const ttl of ['', ',"ttl":"5m"', ',"x":"1h"']) {
    expect(asksToCacheForAnHour(read(MESSAGES, cached(ttl)))).toBe(false);
  }
});

it('says what the request asks of the service, and whether another model may answer', () => {
  expect(read(MESSAGES, ',"speed":"fast","inference_geo":"us","service_tier":null').asked).toEqual({
    serviceTier: undefined,
    speed: 'fast',
    geography: 'us',
  });
  expect(read(CHAT_COMPLETIONS, ',"service_tier":"priority"').asked.serviceTier).toBe('priority');
  expect(read(MESSAGES, ',"fallbacks":[{"model":"x"}]').namesSeveralModels).toBe(true);
  expect(read(CHAT_COMPLETIONS, ',"models":["x"]').namesSeveralModels).toBe(true);
  expect(read(CHAT_COMPLETIONS, ',"tools":[{"model":"x"}]').namesSeveralModels).toBe(false);
});

it('refuses a name of what says which models may answer in another case, which some vendors take for it', () => {
  for (const name of ['Model', 'MODEL', 'mo\\u0044el', 'Models', 'FALLBACKS', 'fallback\\u0053']) {
    expect(() => read(CHAT_COMPLETIONS, `,"${name}":"c/d"`)).toThrow(
      expect.objectContaining({ code: 'ambiguous_field' }),
    );
  }
  expect(() => read(CHAT_COMPLETIONS, ',"models":[],"Modes":1')).not.toThrow();
});
