/**
 * The betas of Anthropic's API that Claude on Vertex AI takes, and what it calls them: it refuses a request whose header names
 * another one. What Claude Code names for itself or for its caching is no feature of the model, and is left out.
 */
export const VERTEX_BETAS: ReadonlyMap<string, string> = new Map([
  ['advanced-tool-use-2025-11-20', 'tool-search-tool-2025-10-19'],
  ...[
    'compact-2026-01-12',
    'compact-2026-09-04',
    'computer-use-2025-01-24',
    'computer-use-2025-11-24',
    'context-1m-2025-08-07',
    'context-management-2025-06-27',
    'dangerous-tool-use-2026-09-03',
    'interleaved-thinking-2025-05-14',
    'per-turn-control-2026-07-01',
    'thinking-binding-controls-2026-08-01',
    'thinking-display-updates-2026-08-18',
    'tool-search-tool-2025-10-19',
    'web-search-2025-03-05',
  ].map((name): [string, string] => [name, name]),
]);
