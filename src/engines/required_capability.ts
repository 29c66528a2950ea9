// The only place that refuses a request because the engine lacks a capability.
import { type EngineCapability, engineCapabilities } from '../model/engine_capabilities.ts';
import { Failure } from '../standard/failure.ts';
import type { Engine } from './port/engine.ts';

/** Throws NOT_SUPPORTED_BY_ENGINE. */
export function requireCapability(
  { name, capabilities }: Pick<Engine, 'name' | 'capabilities'>,
  capability: EngineCapability,
): void {
  if (capabilities[capability]) return;
  const message = `the engine "${name}" does not support ${engineCapabilities[capability].feature}`;
  throw new Failure('NOT_SUPPORTED_BY_ENGINE', message, { capability, engine: name });
}
