import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { publishedResponses } from './publishedResponses.ts';

const document = JSON.parse(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'));
const responses = publishedResponses(document);
const JSON_TYPE = 'application/json; charset=utf-8';

function check(method: string, path: string, status: number, body: unknown, type = JSON_TYPE) {
  return () => responses.check({ method, path, status, type, text: JSON.stringify(body) });
}

const refusal = {
  error: { message: 'No.', type: 'not_found_error', code: 'key_not_found', param: null, request_id: 'req_1' },
};

describe('a response', () => {
  const key = document.paths['/api/v1/keys/{key_id}'].get.responses[200].content['application/json'].example;

  it('passes if it matches the document', () => {
    check('GET', '/api/v1/keys/key_1?x=y', 200, key)();
    check('GET', '/api/v1/keys/key_1', 404, refusal)();
    check('GET', '/api/v1/nothing', 404, refusal)();
  });

  it('fails if its status is not documented', () => {
    expect(check('GET', '/api/v1/usage', 404, refusal)).toThrow('getUsage does not document');
    expect(check('GET', '/api/v1/nothing', 200, {})).toThrow('no such operation');
  });

  it('fails if its body lacks a field, or has a field of another type', () => {
    const { policy_id, ...lacking } = key;
    expect(check('GET', '/api/v1/keys/key_1', 200, lacking)).toThrow("required property 'policy_id'");
    expect(check('GET', '/api/v1/keys/key_1', 200, { ...key, disabled: 'no' })).toThrow('boolean');
    expect(check('GET', '/api/v1/keys/key_1', 200, { ...key, created_at: 'today' })).toThrow('date-time');
    expect(check('GET', '/api/v1/keys/key_1', 404, { message: 'No.' })).toThrow('error');
  });

  it('fails if its content type is not documented', () => {
    expect(check('GET', '/api/v1/usage', 200, {}, 'text/csv')).toThrow('text/csv');
  });
});
