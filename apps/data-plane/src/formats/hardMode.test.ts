import { expect, it } from 'vitest';
import { readGenerationRequest } from './generationRequest.ts';
import { addedInputTokens, assertAllowedInHardMode } from './hardMode.ts';
import { OPERATIONS, type Operation } from './operation.ts';
import { RequestBody } from './requestBody.ts';

const MODEL = '"model":"mock/echo"';
const CHAT = `{${MODEL},"messages":[{"role":"user","content":"hi"}]`;

function operationAt(path: string): Operation {
  const operation = OPERATIONS.find((one) => one.path === path);
  if (!operation) throw new Error(`no operation at ${path}`);
  return operation;
}

function check(path: string, text: string): void {
  const body = Buffer.from(text);
  assertAllowedInHardMode(
    operationAt(path),
    readGenerationRequest(operationAt(path), new RequestBody([body])).body.toBuffer(),
  );
}

const content = (part: string) => `{${MODEL},"messages":[{"role":"user","content":${part}}]}`;
const input = (items: string) => `{${MODEL},"input":${items}}`;

it.each([
  // Fields that lengthen or multiply the response.
  ['/chat/completions', `${CHAT},"n":"100"}`],
  ['/chat/completions', `${CHAT},"n":2.5}`],
  ['/chat/completions', `${CHAT},"n":129}`],
  ['/chat/completions', `${CHAT},"best_of":2}`],
  ['/chat/completions', `${CHAT},"max_tokens":"100000","max_completion_tokens":1}`],
  ['/chat/completions', `${CHAT},"max_tokens":-1,"max_completion_tokens":1}`],
  ['/responses', `{${MODEL},"input":"hi","max_output_tokens":0}`],
  ['/messages', `${CHAT},"max_tokens":1e300}`],
  // Fields that refer to content elsewhere, or change the price.
  ['/chat/completions', `${CHAT},"models":["mock/dear"]}`],
  ['/chat/completions', `${CHAT},"plugins":[{"id":"web"}]}`],
  ['/chat/completions', `${CHAT},"search_parameters":{"mode":"on"}}`],
  ['/chat/completions', `${CHAT},"extra_body":{"google":{"cached_content":"c"}}}`],
  ['/chat/completions', `${CHAT},"modalities":["text","audio"]}`],
  ['/chat/completions', `${CHAT},"service_tier":"priority"}`],
  ['/messages', `${CHAT},"context_management":{"edits":[]}}`],
  ['/responses', `{${MODEL},"input":"hi","previous_response_id":"resp_1"}`],
  // Tools that the vendor runs.
  ['/chat/completions', `${CHAT},"tools":[{"google_search":{}}]}`],
  ['/chat/completions', `${CHAT},"tools":{"type":"web_search"}}`],
  ['/responses', `{${MODEL},"input":"hi","t\\u006fols":[{"type":"web_search"}]}`],
  ['/messages', `${CHAT},"tools":[{"type":"web_search_20250305","name":"web_search"}]}`],
  ['/chat/completions', `${CHAT},"tools":["web_search"]}`],
  // Content that is not text.
  ['/chat/completions', content('[{"type":"image_url","image_url":{"url":"https://e.test/a.png"}}]')],
  ['/chat/completions', content('[{"image_url":{"url":"https://e.test/a.png"}}]')],
  ['/chat/completions', content('{"type":"image_url"}')],
  ['/chat/completions', `{${MODEL},"messages":{"0":{"role":"user"}}}`],
  ['/chat/completions', `{${MODEL},"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]}`],
  ['/messages', content('[{"type":"tool_result","content":[{"type":"image"}]}]')],
  ['/messages', content('[{"type":"document","source":{"type":"url"}}]')],
  ['/responses', input('[{"id":"msg_1"}]')],
  ['/responses', input('[{"type":"item_reference","id":"msg_1"}]')],
  ['/responses', input('[{"type":"reasoning","id":"rs_1","summary":[]}]')],
  ['/responses', input('[{"type":"function_call_output","output":[{"type":"input_file"}]}]')],
  ['/embeddings', input('[{"image":"https://e.test/a.png"}]')],
])('%s refuses requests without a known maximum cost: %s', (path, text) => {
  expect(() => check(path, text)).toThrow(expect.objectContaining({ code: 'not_allowed_in_hard_mode' }));
});

it.each([
  ['/chat/completions', `${CHAT},"n":3,"max_tokens":10,"max_completion_tokens":null,"service_tier":"auto"}`],
  ['/chat/completions', content('[{"type":"text","text":"hi"}]')],
  ['/chat/completions', `${CHAT},"tools":[{"type":"function","function":{"name":"f"}}]}`],
  [
    '/chat/completions',
    `{${MODEL},"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function"}]},{"role":"tool","tool_call_id":"1","content":"2"}]}`,
  ],
  ['/responses', input('"hi"')],
  ['/responses', input('[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]')],
  ['/responses', input('[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}]')],
  [
    '/messages',
    `${CHAT},"max_tokens":10,"system":[{"type":"text","text":"be"}],"tools":[{"name":"f","input_schema":{}}]}`,
  ],
  ['/messages', content('[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"2"}]}]')],
  ['/embeddings', input('["a","b"]')],
  ['/embeddings', input('[[1,2],[3]]')],
])('%s allows requests that are text only: %s', (path, text) => {
  expect(() => check(path, text)).not.toThrow();
});

it('counts the tokens that a vendor adds for tools', () => {
  expect(addedInputTokens(Buffer.from(`${CHAT}}`))).toBe(0);
  expect(addedInputTokens(Buffer.from(`${CHAT},"tools":[{"type":"function"}]}`))).toBeGreaterThan(804);
  expect(addedInputTokens(Buffer.from(`${CHAT},"functions":[{"name":"f"}]}`))).toBeGreaterThan(804);
});
