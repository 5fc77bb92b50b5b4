import { describe, expect, it } from 'vitest';
import { connectorUnauthorized, refusesCredential } from './credentialRefusal.ts';

const openai = (message: string, type: string, code: string | null = null) =>
  JSON.stringify({ error: { message, type, param: null, code } });

describe('a 403 is about the credential', () => {
  it.each([
    [
      'Anthropic',
      '{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}',
    ],
    [
      'OpenAI, a restricted key',
      openai(
        'You have insufficient permissions for this operation. Missing scopes: model.request.',
        'invalid_request_error',
      ),
    ],
    [
      'OpenAI, by its code',
      openai('Missing scopes: model.request.', 'invalid_request_error', 'missing_scope'),
    ],
    [
      'OpenAI, a project',
      openai(
        'Project `proj_123` does not have access to model `gpt-4o`',
        'invalid_request_error',
        'model_not_found',
      ),
    ],
    [
      'Gemini',
      '[{"error":{"code":403,"message":"Your API key was reported as leaked.","status":"PERMISSION_DENIED"}}]',
    ],
    [
      'xAI',
      '{"code":"The caller does not have permission to execute the specified operation","error":"Your team has no credits."}',
    ],
    ['Bedrock', '{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized"}'],
    [
      'Groq',
      openai(
        'The model is blocked at the organization level.',
        'permissions_error',
        'model_permission_blocked_org',
      ),
    ],
    [
      'a permission whatever its text says',
      openai('No access to the model content-filter-safety.', 'x', 'permission_denied'),
    ],
    ['a firewall', '<html><head><title>403 Forbidden</title></head></html>'],
    ['no body', ''],
    ['nothing that is known', '{"error":{"message":"Forbidden","type":"forbidden"}}'],
    ['not an object', '"Forbidden"'],
    ['null', 'null'],
  ])('%s', (_who, body) => expect(refusesCredential(body)).toBe(true));
});

describe('a 403 is about the request', () => {
  it.each([
    [
      'OpenAI, a region',
      openai(
        'Country, region, or territory not supported',
        'request_forbidden',
        'unsupported_country_region_territory',
      ),
    ],
    [
      'OpenRouter, moderation',
      '{"error":{"code":403,"message":"The model requires moderation. Your input was flagged for violence.","metadata":{"reasons":["violence"]}}}',
    ],
    [
      'xAI, guidelines',
      '{"code":"The caller does not have permission to execute the specified operation","error":"Content violates usage guidelines."}',
    ],
    [
      'Together, a limit',
      openai('Input token count + max_tokens exceeds the limit of the model.', 'invalid_request_error'),
    ],
    ['by its code', openai('No.', 'invalid_request_error', 'content_policy_violation')],
    ['by a nested reason', '{"error":{"status":"FAILED","details":[{"reason":"SAFETY"}]}}'],
  ])('%s', (_who, body) => expect(refusesCredential(body)).toBe(false));
});

it('a body made to be read for long is read in no time', () => {
  const deep = `${'{"error":'.repeat(5_000)}1${'}'.repeat(5_000)}`;
  const wide = JSON.stringify({ error: { details: Array(5_000).fill({ message: 'a '.repeat(20) }) } });
  const began = performance.now();
  for (const body of [deep, wide, JSON.stringify({ message: 'country '.repeat(8_000) })])
    refusesCredential(body);
  expect(performance.now() - began).toBeLessThan(500);
});

it('the client learns the provider, and nothing of the account', () => {
  const { kind, code, message, headers } = connectorUnauthorized('openai');
  expect([kind, code, headers]).toEqual([
    'upstream',
    'connector_unauthorized',
    { 'x-should-retry': 'false' },
  ]);
  expect(message).toContain('openai');
});
