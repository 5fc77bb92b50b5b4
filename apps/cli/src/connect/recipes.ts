import { AGENTS } from './agents.ts';
import { JAVASCRIPT } from './javascript.ts';
import { PYTHON } from './python.ts';
import type { Recipe } from './recipe.ts';

/** Every client that `weighbridge connect` knows. */
export const RECIPES: readonly Recipe[] = [...AGENTS, ...JAVASCRIPT, ...PYTHON];

export function findRecipe(name: string): Recipe | undefined {
  return RECIPES.find((recipe) => recipe.name === name);
}
