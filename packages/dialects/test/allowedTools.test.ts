import { describe, expect, it } from 'vitest';
import { FORMATS, type Format, type TargetFormat } from '../src/format.ts';
import { bodyOf, targetOf, translate } from './translating.ts';

const NAMES = ['weigh', 'read', 'write'];
const TARGETS: readonly TargetFormat[] = [...FORMATS, 'converse'];

/** Any JSON. */
type Wire = ReturnType<typeof JSON.parse>;
type Mode = 'auto' | 'required';

/** A request that may call these of the three tools, in each dialect that can say so. */
const REQUESTS: Readonly<Partial<Record<Format, (mode: Mode, allowed: readonly string[]) => object>>> = {
  chat: (mode, allowed) => {
    const tool = (name: string) => ({ type: 'function', function: { name } });
    return {
      messages: [{ role: 'user', content: 'Hi' }],
      tools: NAMES.map(tool),
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode, tools: allowed.map(tool) } },
    };
  },
  responses: (mode, allowed) => {
    const tool = (name: string) => ({ type: 'function', name });
    const tool_choice = { type: 'allowed_tools', mode, tools: allowed.map(tool) };
    return { input: 'Hi', tools: NAMES.map((name) => ({ ...tool(name), parameters: {} })), tool_choice };
  },
  gemini: (mode, allowed) => ({
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    tools: [{ functionDeclarations: NAMES.map((name) => ({ name })) }],
    toolConfig: {
      functionCallingConfig: { mode: mode === 'auto' ? 'VALIDATED' : 'ANY', allowedFunctionNames: allowed },
    },
  }),
};

interface Sent {
  /** The functions that the model may call. */
  readonly callable: readonly string[];
  readonly mode: Mode;
}

/** What a vendor's body lets the model call. */
function readSent(format: TargetFormat, text: string): Sent {
  const body = JSON.parse(text);
  switch (format) {
    case 'chat':
      return { callable: body.tools.map((tool: Wire) => tool.function.name), mode: body.tool_choice };
    case 'responses': {
      const choice = body.tool_choice;
      const names = (tools: readonly Wire[]) => tools.map(({ name }) => name);
      return typeof choice === 'string'
        ? { callable: names(body.tools), mode: choice as Mode }
        : { callable: names(choice.tools), mode: choice.mode };
    }
    case 'messages': {
      const mode = body.tool_choice.type === 'any' ? 'required' : body.tool_choice.type;
      return { callable: body.tools.map(({ name }: Wire) => name), mode };
    }
    case 'gemini': {
      const { mode, allowedFunctionNames } = body.toolConfig.functionCallingConfig;
      const declared = body.tools[0].functionDeclarations.map(({ name }: Wire) => name);
      return { callable: allowedFunctionNames ?? declared, mode: mode === 'ANY' ? 'required' : 'auto' };
    }
    case 'converse': {
      const { tools, toolChoice } = body.toolConfig;
      const mode = toolChoice.any ? 'required' : 'auto';
      return { callable: tools.map(({ toolSpec }: Wire) => toolSpec.name), mode };
    }
  }
}

describe('a choice among some of the tools', () => {
  it('lets the model call these and no others, wherever it goes', () => {
    const wrong: string[] = [];
    let cells = 0;
    for (const [from, request] of Object.entries(REQUESTS)) {
      for (const to of TARGETS.filter((target) => target !== from)) {
        for (const mode of ['auto', 'required'] as const) {
          for (const allowed of [['weigh', 'write'], NAMES]) {
            const body = bodyOf(translate(from as Format, request(mode, allowed), targetOf(to)));
            const sent = readSent(to, body);
            cells++;
            if (JSON.stringify(sent) !== JSON.stringify({ callable: allowed, mode }))
              wrong.push(`${from} to ${to}, ${mode} ${allowed.join()}: ${JSON.stringify(sent)}`);
          }
        }
      }
    }
    expect(cells).toBe(3 * 4 * 2 * 2);
    expect(wrong).toEqual([]);
  });

  it('keeps all tools where the vendor can be told which of them may be called', () => {
    const request = REQUESTS.gemini?.('required', ['weigh', 'write']);
    const { tools, tool_choice } = JSON.parse(bodyOf(translate('gemini', request, targetOf('responses'))));
    expect(tools).toHaveLength(3);
    expect(tool_choice.type).toBe('allowed_tools');
  });

  it('is refused, with its place, if it names a tool that the request does not have', () => {
    for (const [from, request] of Object.entries(REQUESTS)) {
      const body = request('required', ['weigh', 'lift']);
      expect(translate(from as Format, body, targetOf('messages')), from).toMatchObject({
        kind: 'refused',
        losses: [{ reason: 'the model has no tool lift' }],
      });
    }
  });
});
