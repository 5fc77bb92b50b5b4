import { describe, expect, it } from 'vitest';
import { readGenerationRequest } from '../formats/generationRequest.ts';
import { MESSAGES, type Operation, RESPONSES } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { expectedToolUses, serverToolsOf } from '../formats/serverTools.ts';
import { billedTools } from './billedTools.ts';

const request = (operation: Operation, fields: object, from = '', to = '') =>
  readGenerationRequest(
    operation,
    new RequestBody([Buffer.from(JSON.stringify({ model: 'm', ...fields }).replaceAll(from || '\0', to))]),
  );
const asking = (tools: readonly object[], from?: string, to?: string) =>
  request(RESPONSES, { tools, input: 'weigh' }, from, to);
const billed = (uses: Record<string, number>, of: ReturnType<typeof request> | undefined) =>
  billedTools(uses, () => of && serverToolsOf(of));

describe('what a request says of a container', () => {
  const interpreter = (container?: unknown) => ({ type: 'code_interpreter', container });
  it.each([
    ['no container', {}, 'code_interpreter'],
    ['no size', { container: { type: 'auto' } }, 'code_interpreter'],
    ['null', { container: { type: 'auto', memory_limit: null } }, 'code_interpreter'],
    ['the smallest', { container: { type: 'auto', memory_limit: '1g' } }, 'code_interpreter'],
    ['a size', { container: { type: 'auto', memory_limit: '4g' } }, 'code_interpreter_4g'],
    ['a size that no one knows', { container: { memory_limit: '48g' } }, 'code_interpreter_64g'],
    ['a number', { container: { memory_limit: 1 } }, 'code_interpreter_64g'],
    ['an unknown leaf', { container: { type: 'auto', cpus: 2 } }, 'code_interpreter_64g'],
    ['an id', { container: 'cntr_1' }, 'code_interpreter_64g'],
    ['a list', { container: [] }, 'code_interpreter_64g'],
    ['another case', { container: { type: 'auto', Memory_Limit: '4g' } }, 'code_interpreter_64g'],
  ])('%s', (_, fields, name) => {
    const of = asking([{ type: 'code_interpreter', ...fields }]);
    expect(billed({ code_interpreter: 2 }, of)).toEqual({ [name]: 2 });
    expect(expectedToolUses(of, ['code_interpreter'])).toEqual({ [name]: 1 });
  });

  it('counts with escapes in any name, and of two sizes the dearer', () => {
    const large = [interpreter({ type: 'auto', memory_limit: '64g' })];
    for (const [from, to] of [
      ['memory_limit', 'memory\\u005flimit'],
      ['code_interpreter', '\\u0063ode_interpreter'],
      ['container', 'c\\u006fntainer'],
      ['64g', '6\\u0034g'],
    ]) {
      const of = asking(large, from, to);
      expect(billed({ code_interpreter: 1 }, of)).toEqual({ code_interpreter_64g: 1 });
      expect(expectedToolUses(of, ['code_interpreter'])).toEqual({ code_interpreter_64g: 1 });
    }
    const both = asking([...large, interpreter({ type: 'auto', memory_limit: '4g' })]);
    expect(billed({ code_interpreter: 1 }, both)).toEqual({ code_interpreter_64g: 1 });
    const twice = asking([interpreter({ memory_limit: '1g', other: '64g' })], 'other', 'memory_limit');
    expect(billed({ code_interpreter: 1 }, twice)).toEqual({ code_interpreter_64g: 1 });
  });

  it('is found among the items of the input', () => {
    const tools = [interpreter({ type: 'auto', memory_limit: '16g' })];
    for (const type of ['additional_tools', 'tool_search_output']) {
      const of = request(RESPONSES, { input: [{ type, tools }] });
      expect(billed({ code_interpreter: 1 }, of)).toEqual({ code_interpreter_16g: 1 });
    }
  });

  it('is the dearest once the request is gone', () => {
    expect(billed({ code_interpreter: 1, shell_call: 1 }, undefined)).toEqual({
      code_interpreter_64g: 1,
      shell_64g: 1,
    });
  });
});

it('a shell that does not say where it ran is billed unless every shell of the request is the client’s', () => {
  const shell = (environment: object) => ({ type: 'shell', environment });
  const local = asking([shell({ type: 'local' })]);
  const hosted = asking([shell({ type: 'local' }), shell({ type: 'container_auto', memory_limit: '4g' })]);
  expect(billed({ shell_call: 1 }, local)).toEqual({});
  expect(billed({ shell_call: 1 }, hosted)).toEqual({ shell_4g: 1 });
  expect(billed({ shell: 1 }, local)).toEqual({ shell_64g: 1 });
});

it('code is free beside the tools that filter by it, and only there', () => {
  const tool = (type: string) => ({ type, name: 'x' });
  const of = (...types: string[]) => request(MESSAGES, { messages: [], tools: types.map(tool) });
  const uses = { code_execution: 1, web_search: 2 };
  expect(billed(uses, of('code_execution_20250825', 'web_search_20250305'))).toEqual(uses);
  for (const free of ['web_search_20260209', 'web_fetch_20260309']) {
    expect(billed(uses, of('code_execution_20250825', free))).toEqual({ web_search: 2 });
  }
});
