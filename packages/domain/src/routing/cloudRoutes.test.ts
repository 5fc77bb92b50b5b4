import { expect, it } from 'vitest';
import { cloudRoute, isCloud } from './cloudRoutes.ts';

it.each([
  ['claude-sonnet-4-5@20250929', 'messages'],
  ['claude-opus-4-1', 'messages'],
  ['gemini-2.5-pro', 'generate_content'],
  ['gemini-3-pro-preview', 'generate_content'],
  ['meta/llama-4-maverick-17b-128e-instruct-maas', 'chat_completions'],
  ['google/gemini-2.5-flash', 'chat_completions'],
])('at Vertex AI, %s has %s', (upstreamName, route) => {
  expect(cloudRoute('google', { id: `vertex/${upstreamName}`, upstreamName })).toBe(route);
});

const PROFILE = 'arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/a1b2';

it.each([
  ['anthropic.claude-sonnet-4-5-20250929-v1:0', 'anthropic.claude-sonnet-4-5-20250929-v1:0', 'messages'],
  ['eu.anthropic.claude-opus-5-5-v1:0', 'eu.anthropic.claude-opus-5-5-v1:0', 'messages'],
  ['our-claude', PROFILE, 'messages'],
  ['our-nova', PROFILE, 'converse'],
  ['amazon.nova-pro-v1:0', 'amazon.nova-pro-v1:0', 'converse'],
  ['openai.gpt-oss-120b-1:0', 'openai.gpt-oss-120b-1:0', 'converse'],
])('at Bedrock, %s (%s) has %s', (name, upstreamName, route) => {
  expect(cloudRoute('aws', { id: `bedrock/${name}`, upstreamName })).toBe(route);
});

it('other identities are at no such cloud', () => {
  expect(['google', 'aws', 'oauth', 'key', undefined].map(isCloud)).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
});
