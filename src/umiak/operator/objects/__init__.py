"""What the operator creates, as plain JSON: pods, Services, the ConfigMap, PodGroups. Deciders only."""
