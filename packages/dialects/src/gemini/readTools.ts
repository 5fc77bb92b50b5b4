import type { HostedService, Tool } from '../ir/request.ts';
import type { Fields } from '../loss/fields.ts';
import { raiseSchema } from '../schema/raiseSchema.ts';
import { type FunctionDeclaration, type GeminiBody, geminiFields, type ToolWire } from './wire.ts';

/** What the vendor runs, by the member of a tool that asks for it. */
const SERVICES: Readonly<Record<string, HostedService>> = {
  googleSearch: 'web_search',
  googleSearchRetrieval: 'web_search',
  urlContext: 'web_fetch',
  codeExecution: 'code',
  googleMaps: 'maps',
  computerUse: 'other',
  enterpriseWebSearch: 'web_search',
  fileSearch: 'other',
  retrieval: 'other',
};

export function readTools(body: Fields<GeminiBody>): Tool[] {
  const list = body.list('tools') ?? [];
  return list.flatMap((value, index) => {
    const fields = geminiFields<ToolWire>(value, `tools.${index}`, body.context);
    return fields ? readTool(fields) : [];
  });
}

function readTool(fields: Fields<ToolWire>): Tool[] {
  const declarations = fields.list('functionDeclarations') ?? [];
  const tools = declarations.flatMap((value, index) => {
    const path = `${fields.path}.functionDeclarations.${index}`;
    const declaration = geminiFields<FunctionDeclaration>(value, path, fields.context);
    return declaration ? [readDeclaration(declaration)] : [];
  });
  for (const [name, service] of Object.entries(SERVICES)) {
    if (fields.take(name as keyof ToolWire) === undefined) continue;
    tools.push({ kind: 'hosted', path: fields.at(name), name, service });
  }
  fields.refuse('mcpServers', 'only its vendor runs it');
  fields.end();
  return tools;
}

function readDeclaration(fields: Fields<FunctionDeclaration>): Tool {
  const json = fields.json('parametersJsonSchema');
  const own = fields.json('parameters');
  const schema = json ?? (own && raiseSchema(own, fields.at('parameters'), fields.context.losses));
  fields.drop('response', 'results have no schema');
  fields.drop('responseJsonSchema', 'results have no schema');
  fields.drop('behavior', 'calls block');
  const tool: Tool = {
    kind: 'function',
    path: fields.path,
    name: fields.need('name', fields.text('name')) ?? '',
    description: fields.text('description'),
    schema,
  };
  fields.end();
  return tool;
}
