import type { HostedService } from '../ir/request.ts';

/** Why a setting of a tool that a vendor runs is lost. */
export const OWN_SETTING = "only its vendor's tool has the setting";

/** Tools that OpenAI runs, or whose calls have their own form, by type (https://platform.openai.com/docs/guides/tools). */
const OPENAI_TOOLS: Readonly<Record<string, HostedService>> = {
  web_search: 'web_search',
  web_search_2025_08_26: 'web_search',
  web_search_preview: 'web_search',
  web_search_preview_2025_03_11: 'web_search',
  code_interpreter: 'code',
  file_search: 'other',
  image_generation: 'other',
  computer: 'other',
  computer_use_preview: 'other',
  local_shell: 'other',
  shell: 'other',
  apply_patch: 'other',
  tool_search: 'other',
};

export function hostedService(type: string): HostedService | undefined {
  return Object.hasOwn(OPENAI_TOOLS, type) ? OPENAI_TOOLS[type] : undefined;
}
