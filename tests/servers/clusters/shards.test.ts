// The scenario of a cluster. Each server has a part of the rows.
import { scenarioOn } from './scenario.ts';

scenarioOn('shards');
