/** Amazon Bedrock: `us.anthropic.claude-sonnet-4-5-20250929-v1:0`, without the region and the version. */
const BEDROCK = /^(?:(?:us|us-gov|eu|apac|ap|jp|au|ca|in|global)\.)?([a-z0-9-]+)\.(.+?)(?:-v\d+(?::\d+)?)?$/;
/** Google Vertex AI: the path of a model, and what its OpenAI-compatible API puts before one. */
const VERTEX_PATH = /^(?:(?:publishers\/[a-z0-9-]+\/)?models\/|google\/)(.+)$/;
/** Google Vertex AI puts the version behind an `@`. */
const VERTEX_VERSION = /^([^@]+)@(\d{8}|default|latest)$/;

/** A name without the spelling of a cloud; `provider` if the spelling states who makes the model. */
export interface CloudName {
  readonly provider: string | undefined;
  readonly name: string;
}

/** What a cloud's spelling of a model's name stands for, if it exists; undefined if the name has no such spelling. */
export function parseCloudName(spelled: string): CloudName | undefined {
  const name = VERTEX_PATH.exec(spelled)?.[1] ?? spelled;
  const [, base, version = ''] = VERTEX_VERSION.exec(name) ?? [];
  if (base !== undefined) {
    return { provider: undefined, name: /^\d/.test(version) ? `${base}-${version}` : base };
  }
  if (name !== spelled) return { provider: undefined, name };
  const [, provider, atBedrock] = BEDROCK.exec(spelled) ?? [];
  return provider !== undefined && atBedrock !== undefined ? { provider, name: atBedrock } : undefined;
}
