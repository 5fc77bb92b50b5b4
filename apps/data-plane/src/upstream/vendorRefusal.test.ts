import { expectLinear } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { isPartialRight, refusedFor } from './vendorRefusal.ts';

const openai = (message: string, type: string, code: string | null = null) =>
  JSON.stringify({ error: { message, type, param: null, code } });

describe('a 403 may be about the account, or about the request', () => {
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
  ])('%s', (_who, body) => expect(refusedFor(403, body)).toBe('unclear'));
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
  ])('%s', (_who, body) => expect(refusedFor(403, body)).toBe('request'));
});

it.each<[string, (count: number) => string]>([
  ['deep', (count) => `${'{"error":'.repeat(count)}1${'}'.repeat(count)}`],
  [
    'wide',
    (count) => JSON.stringify({ error: { details: Array(count).fill({ message: 'a '.repeat(20) }) } }),
  ],
  ['full of words that look like a reason', (count) => JSON.stringify({ message: 'country '.repeat(count) })],
])('a body that is %s is read in linear time', (_what, bodyOf) =>
  expectLinear(5_000, (size) => {
    const body = bodyOf(size);
    return () => refusedFor(403, body);
  }),
);

describe('a response is about the credential, whoever asks', () => {
  it.each([
    [
      'OpenAI',
      401,
      openai('Incorrect API key provided: sk-***.', 'invalid_request_error', 'invalid_api_key'),
    ],
    [
      'Anthropic',
      401,
      '{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}',
    ],
    ['Azure', 401, '{"error":{"code":"401","message":"Access denied due to invalid subscription key."}}'],
    ['Mistral', 401, '{"detail":"Unauthorized"}'],
    ['Cohere', 401, '{"message":"invalid api token"}'],
    ['DeepSeek', 401, openai('Authentication Fails', 'authentication_error', 'invalid_request_error')],
    ['Groq', 401, openai('Invalid API Key', 'invalid_request_error', 'invalid_api_key')],
    ['Together', 401, openai('Invalid API key provided', 'invalid_request_error', 'invalid_api_key')],
    ['a page', 401, 'Unauthorized'],
    ['no body', 401, ''],
    ['a body that could not be read', 401, undefined],
    [
      'Bedrock',
      403,
      '{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"invalid token"}',
    ],
    ['Bedrock, a signature', 403, '{"__type":"InvalidSignatureException","message":"does not match"}'],
    ['Bedrock, expired', 403, '{"__type":"ExpiredTokenException","message":"expired"}'],
    ['OpenAI, an account', 403, openai('Closed.', 'invalid_request_error', 'account_deactivated')],
    [
      'Gemini, a service',
      403,
      '{"error":{"status":"PERMISSION_DENIED","details":[{"reason":"SERVICE_DISABLED"}]}}',
    ],
    [
      'Gemini',
      400,
      '[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]',
    ],
    ['Gemini, without its reason', 400, '{"error":{"message":"API key expired. Please renew the API key."}}'],
  ])('%s %i', (_who, status, body) => expect(refusedFor(status, body)).toBe('credential'));
});

describe('a response may be about the account', () => {
  it.each([
    [
      'OpenAI, a restricted key',
      401,
      openai('Missing scopes: api.responses.write.', 'invalid_request_error'),
    ],
    ['a gateway, by model', 401, openai('key not allowed to access model', 'key_model_access_denied', '401')],
    [
      'xAI',
      400,
      '{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***."}',
    ],
    ['a 403 that could not be read', 403, undefined],
  ])('%s %i', (_who, status, body) => expect(refusedFor(status, body)).toBe('unclear'));
});

describe('a 400 is about the request', () => {
  it.each([
    ['a mistake', openai('Unknown parameter: x.', 'invalid_request_error', 'unknown_parameter')],
    [
      'text that the vendor repeats',
      openai('Bad value: "Incorrect API key provided"', 'invalid_request_error'),
    ],
    ['an input that it repeats', '{"detail":[{"type":"missing","input":{"code":"invalid_api_key"}}]}'],
    ['no body', ''],
    ['a body that could not be read', undefined],
  ])('%s', (_who, body) => expect(refusedFor(400, body)).toBe('request'));
});

it('a key that may not list models says nothing of its other rights', () => {
  expect(isPartialRight(openai('Missing scopes: api.model.read.', 'x', 'missing_scope'))).toBe(true);
  expect(isPartialRight('{"error":{"status":"PERMISSION_DENIED","message":"reported as leaked"}}')).toBe(
    false,
  );
  expect(isPartialRight(undefined)).toBe(false);
});
