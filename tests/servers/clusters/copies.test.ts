// The scenario of a cluster. Each server has all rows.
import { scenarioOn } from './scenario.ts';

scenarioOn('copies');
