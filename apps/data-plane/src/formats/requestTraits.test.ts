import { expect, it } from 'vitest';
import { readGenerationRequest } from './generationRequest.ts';
import { CHAT_COMPLETIONS, MESSAGES, type Operation } from './operation.ts';
import { RequestBody } from './requestBody.ts';

const read = (operation: Operation, text: string) =>
  readGenerationRequest(operation, new RequestBody([Buffer.from(`{"model":"a/b"${text}}`)]));

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
